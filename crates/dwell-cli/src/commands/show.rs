//! `dwell show`: what `dwell run` said of a run, again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_report::RunSummary;
use dwell_report::text::summary_text;
use dwell_store::{FilesRead, runs_under};

use super::compare::DEFAULT_RESULTS;
use crate::args::ShowArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{Failure, hinted, print_hints};
use crate::output::{print_result, step, width_chars};
use crate::shell::shell_word;

pub(crate) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    // As it was typed, which is how `dwell run` shows it.
    let run_dir = named_run(&args.run, Path::new(DEFAULT_RESULTS))?;
    let run = super::one_run_at(&run_dir, "showing a run")?;
    warn_of_changed_files(&run, FilesRead::Tables);
    let summary = step("computing the metrics", || RunSummary::load(&run)).map_err(hinted)?;
    let report = summary.report.as_ref().and_then(|report| report.file_name()).map(|name| run_dir.join(name));
    let summary = RunSummary { run_dir, report, ..summary };
    if args.json {
        super::print_json(&summary)?;
    } else {
        print_result(&summary_text(&summary, width_chars()))?;
        print_hints(&summary.failure_hints);
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of a run that is named by it, without the slash that a shell completes, or by its id.
fn named_run(named: &Path, results: &Path) -> Result<PathBuf, Failure> {
    let is_id = named.components().count() == 1 && !named.exists() && results.is_dir();
    let runs = if is_id { runs_under(results).unwrap_or_default() } else { Vec::new() };
    let found: Vec<PathBuf> = runs.into_iter().map(|run| run.path).filter(|path| path.ends_with(named)).collect();
    match found.as_slice() {
        [] => Ok(named.components().collect()),
        [only] => Ok(only.clone()),
        several => {
            let failure = Failure::new(format!("showing a run found several with the id {}", named.display()));
            let command = |run: &PathBuf| format!("dwell show {}", shell_word(&run.display().to_string()));
            Err(several.iter().map(command).fold(failure, Failure::hint))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::fs;

    use super::*;

    #[test]
    fn a_run_is_found_by_its_id_and_several_are_told_apart() {
        let place = tempfile::tempdir().unwrap();
        let named = |id: &str| named_run(Path::new(id), place.path());
        let make = |run: &str| {
            let raw = place.path().join(run).join("raw");
            fs::create_dir_all(&raw).unwrap();
            fs::write(raw.join("STATE"), "{}").unwrap();
        };
        make("tiny/demo");
        assert_eq!(named("demo").unwrap(), place.path().join("tiny/demo"));
        assert_eq!(named("other").unwrap(), Path::new("other"), "what is not there is refused as it was typed");
        assert_eq!(named("tiny/demo/").unwrap(), Path::new("tiny/demo"));
        make("large/demo");
        let failure = named("demo").unwrap_err();
        assert_eq!(failure.hints().len(), 2, "{failure}");
        assert!(failure.hints()[0].starts_with("dwell show /"), "{:?}", failure.hints());
    }
}
