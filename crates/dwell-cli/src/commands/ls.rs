//! `dwell ls`: the runs and experiments of a results directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_build::is_running_dwell;
use dwell_experiment::list_experiments;
use dwell_report::text::list_of_runs_text;
use dwell_report::{ResultsList, list_runs};
use dwell_store::unix_secs_now;

use crate::args::LsArgs;
use crate::messages::{Failure, print_hints};
use crate::output::{print_result, result_width, step};
use crate::shell::shell_word;

pub(crate) fn run(args: &LsArgs) -> anyhow::Result<ExitCode> {
    check_is_folder(&args.path)?;
    let list = step("reading runs and experiments", || list(&args.path));
    if args.json {
        super::print_json(&list)?;
    } else {
        print_result(&list_of_runs_text(&list, unix_secs_now(), result_width()))?;
        let path = shell_word(&args.path.display().to_string());
        let recover = format!("finish runs that were killed with `dwell recover {path}`");
        print_hints(&list.has_killed_run().then_some(recover).into_iter().collect::<Vec<_>>());
    }
    Ok(ExitCode::SUCCESS)
}

fn check_is_folder(path: &Path) -> Result<(), Failure> {
    match fs::read_dir(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(format!("listing runs failed with {error}: {path:?}"))
            .hint("name the folder that runs were written to, as with `dwell run -o DIR`; without -o it is `results`")),
    }
}

/// Experiments lie in results directories: the folder itself, or one in it.
pub(super) fn list(path: &Path) -> ResultsList {
    let folders = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let results: Vec<PathBuf> = [path.to_owned()].into_iter().chain(folders).collect();
    let experiments = results.iter().flat_map(|results| list_experiments(results)).collect();
    ResultsList::new(list_runs(path, &is_running_dwell), experiments)
}
