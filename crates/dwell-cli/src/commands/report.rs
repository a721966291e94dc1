//! `dwell report`: a run, a comparison or an experiment as one page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_files::write_bytes_atomically;
use dwell_report::{AggregateOptions, Page, RunPage, aggregate, compare, report_html};
use dwell_store::{FilesRead, RunDir, TreeKind};

use super::analyse_tree::{nothing_counts, read_runs, warn_of_missing_runs};
use super::compare::{experiment_at, read_sources};
use super::kind_at;
use super::observe_report::read_observations;
use crate::args::ReportArgs;
use crate::browser::opens_in_browser;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::check_file_in_folder;
use crate::output::{print_result, step, unprinted};
use crate::run_request::command_line;

const DEFAULT_FILE: &str = "report.html";

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
    check_file_in_folder(&output, args.force)?;
    let (page, has_unreadable) = step("reading runs", || page(args))?;
    write_bytes_atomically(&output, report_html(&page).as_bytes()).map_err(hinted)?;
    print_result(&format!("{}\n", output.display())).map_err(|error| unprinted(&error, &output))?;
    let is_opened = !args.open || opens_in_browser(absolute(&output).as_os_str(), "the report is written");
    Ok(if has_unreadable || !is_opened { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// The page that the paths ask for, and whether some runs could not be read.
fn page(args: &ReportArgs) -> anyhow::Result<(Page, bool)> {
    if let ([folder], None) = (args.paths.as_slice(), &args.experiment)
        && let Some((results, id)) = experiment_at(folder)
    {
        return experiment_page(&results, &id, args);
    }
    match (args.paths.as_slice(), &args.experiment) {
        ([path], Some(asked)) => experiment_page(path, asked, args),
        (paths, None) if !args.observations.is_empty() => Ok((observed_page(paths, &args.observations)?, false)),
        (_, Some(_)) => {
            Err(Failure::new("reporting on an experiment takes one results directory").hint("name one folder").into())
        }
        ([path], None) if kind_at(path)? == TreeKind::Run => {
            let run = RunDir::open(path).map_err(hinted)?;
            warn_of_changed_files(&run, FilesRead::Tables);
            Ok((Page::of_run(RunPage::load(&run).map_err(hinted)?), false))
        }
        (paths, None) => {
            let (sources, has_unreadable) = read_sources(paths)?;
            let comparison = compare(&sources).map_err(hinted)?;
            Ok((Page::of_comparison(&comparison).map_err(hinted)?, has_unreadable))
        }
    }
}

/// A run with what the kernel did meanwhile.
fn observed_page(paths: &[PathBuf], observations: &[PathBuf]) -> anyhow::Result<Page> {
    let [path] = paths else {
        return Err(Failure::new("drawing observations takes one run").hint("name one run directory").into());
    };
    let run = super::one_run_at(path, "drawing observations")?;
    warn_of_changed_files(&run, FilesRead::Tables);
    let lines = read_observations(observations)?.0;
    let mut page = RunPage::load(&run).map_err(hinted)?;
    if !page.observe(lines) {
        return Err(Failure::new("drawing observations found none from the time of the run")
            .hint("observe while the run is recorded, on the same machine and boot")
            .into());
    }
    Ok(Page::of_run(page))
}

fn experiment_page(path: &Path, asked: &str, args: &ReportArgs) -> anyhow::Result<(Page, bool)> {
    let found = read_runs(path)?;
    let options =
        AggregateOptions { columns: Vec::new(), experiment: Some(asked.to_owned()), include: args.include.clone() };
    let aggregate = aggregate(&found.facts, &options).map_err(hinted)?;
    if aggregate.runs == 0 {
        return Err(nothing_counts(&aggregate, path, &command_line()).into());
    }
    warn_of_missing_runs(path, Some(asked), &found.facts);
    Ok((Page::of_experiment(&aggregate, asked), found.has_unreadable))
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
