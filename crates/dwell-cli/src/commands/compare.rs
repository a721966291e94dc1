//! `dwell compare`: memory, speed and times of runs side by side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_experiment::list_experiments;
use dwell_report::text::comparison_text;
use dwell_report::{CompareSource, Comparison, ExperimentEntry, compare, comparison_figures};
use dwell_store::TreeKind;

use super::analyse_tree::{read_runs, warn_of_missing_runs};
use super::kind_at;
use crate::args::CompareArgs;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::new_output::OutputFolder;
use crate::output::{print_result, result_width, say, step, unprinted_beside};

/// Where results are unless `-o` says otherwise.
pub(super) const DEFAULT_RESULTS: &str = "results";
/// What the folder of an experiment holds from its beginning on.
const EXPERIMENT_FILE: &str = "experiment.json";

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (mut sources, mut has_unreadable) = step("reading runs", || read_sources(&args.paths))?;
    if let Some(experiment) = &args.experiment {
        let (runs, is_partly_unreadable) = read_experiment(experiment)?;
        // A run that was named too is there already.
        let is_new = |run: &CompareSource| !sources.iter().any(|known| known.facts.path == run.facts.path);
        let runs: Vec<CompareSource> = runs.into_iter().filter(is_new).collect();
        sources.extend(runs);
        has_unreadable |= is_partly_unreadable;
    }
    let comparison = compare(&sources).map_err(hinted)?;
    for warning in &comparison.warnings {
        say(format_args!("warning: {warning}\n"));
    }
    if let Some(output) = &args.output {
        step("writing files and plots", || write_files(&comparison, output, args.force))?;
    }
    let printed = match args.json {
        true => super::print_json(&comparison),
        false => print_result(&comparison_text(&comparison, result_width())),
    };
    printed.map_err(|error| unprinted_beside(error, args.output.as_ref()))?;
    Ok(if has_unreadable { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// The runs at all paths, each once, and whether some below a folder could not be read.
pub(super) fn read_sources(paths: &[PathBuf]) -> anyhow::Result<(Vec<CompareSource>, bool)> {
    let (mut sources, mut has_unreadable) = (Vec::new(), false);
    let mut seen = BTreeSet::new();
    for path in paths {
        let is_named = kind_at(path)? == TreeKind::Run;
        let found = read_runs(path)?;
        if is_named && found.has_unreadable {
            return Err(Failure::new(format!("comparing runs could not read one that was named: {path:?}"))
                .hint(format!("see what is wrong with it with `dwell verify '{}'`", path.display()))
                .into());
        }
        has_unreadable |= found.has_unreadable;
        let new = found.facts.into_iter().filter(|facts| seen.insert(facts.path.clone()));
        sources.extend(new.map(|facts| CompareSource { facts, is_named }));
    }
    Ok((sources, has_unreadable))
}

/// The runs of an experiment, and whether some in its results could not be read.
fn read_experiment(named: &Path) -> anyhow::Result<(Vec<CompareSource>, bool)> {
    let Some((results, id)) = experiment_at(&experiment_folder(named)) else {
        return Err(unknown_experiment(named, &list_experiments(Path::new(DEFAULT_RESULTS))).into());
    };
    let found = read_runs(&results)?;
    warn_of_missing_runs(&results, Some(&id), &found.facts);
    let runs: Vec<CompareSource> = found
        .facts
        .into_iter()
        .filter(|facts| facts.is_of(&id))
        .map(|facts| CompareSource { facts, is_named: false })
        .collect();
    Ok((runs, found.has_unreadable))
}

/// The results directory and the id of the experiment whose folder this is; none if it is no such folder.
pub(super) fn experiment_at(folder: &Path) -> Option<(PathBuf, String)> {
    let place = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let is_experiment = place.join(EXPERIMENT_FILE).is_file();
    let id = place.file_name()?.to_string_lossy().into_owned();
    // As it was typed, where that says where the results are: hints show it.
    let results = folder.ancestors().nth(2).filter(|results| !results.as_os_str().is_empty() && results.is_dir());
    let results = results.or(place.ancestors().nth(2))?;
    is_experiment.then(|| (results.to_owned(), id))
}

fn unknown_experiment(named: &Path, known: &[ExperimentEntry]) -> Failure {
    let entry = |found: &ExperimentEntry| match &found.name {
        Some(name) => format!("{name} ({})", found.experiment_id),
        None => found.experiment_id.clone(),
    };
    let known: Vec<String> = known.iter().map(entry).collect();
    match known.is_empty() {
        true => Failure::new(format!(
            "comparing an experiment found none of this name, and none in {DEFAULT_RESULTS}: {named:?}"
        ))
        .hint("name its folder: --experiment RESULTS/experiments/ID"),
        false => Failure::new(format!("comparing an experiment found none of this name: {named:?}"))
            .hint(format!("known in {DEFAULT_RESULTS}: {}", known.join(", "))),
    }
}

/// The folder of an experiment that is named by it, or by the id or name that it has in the default results.
fn experiment_folder(named: &Path) -> PathBuf {
    let is_named = |found: &ExperimentEntry| {
        let name = named.as_os_str();
        name == found.experiment_id.as_str() || found.name.as_deref().is_some_and(|known| name == known)
    };
    let known = || list_experiments(Path::new(DEFAULT_RESULTS)).into_iter().filter(is_named);
    match named.join(EXPERIMENT_FILE).is_file() {
        true => named.to_owned(),
        // Ids begin with the time: the last one is that of the newest execution.
        false => known().map(|found| found.path).max().unwrap_or_else(|| named.to_owned()),
    }
}

fn write_files(comparison: &Comparison, output: &Path, force: bool) -> anyhow::Result<()> {
    let mut files = OutputFolder::new(output);
    files.add("compare.csv", comparison.compare_csv());
    files.add("context.csv", comparison.context_csv());
    files.add_json("compare.json", comparison)?;
    files.add_figures(&comparison_figures(comparison).map_err(hinted)?);
    files.write(force)
}
