//! `dwell compare`: memory, speed and times of runs side by side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_files::{write_bytes_atomically, write_json_atomically};
use dwell_report::text::comparison_text;
use dwell_report::{CompareSource, Comparison, compare, comparison_figures};
use dwell_store::{TreeKind, tree_kind};

use super::analyse_tree::read_runs;
use crate::args::CompareArgs;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::output::{print_result, say};

/// What the folder of an experiment holds from its beginning on.
const EXPERIMENT_FILE: &str = "experiment.json";

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (mut sources, mut has_unreadable) = read_sources(&args.paths)?;
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
        write_files(&comparison, output)?;
    }
    if args.json {
        super::print_json(&comparison)?;
    } else {
        print_result(&comparison_text(&comparison))?;
    }
    Ok(if has_unreadable { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// The runs at all paths, each once, and whether some below a folder could not be read.
fn read_sources(paths: &[PathBuf]) -> anyhow::Result<(Vec<CompareSource>, bool)> {
    let (mut sources, mut has_unreadable) = (Vec::new(), false);
    let mut seen = BTreeSet::new();
    for path in paths {
        let is_named = tree_kind(path).map_err(hinted)? == TreeKind::Run;
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
fn read_experiment(dir: &Path) -> anyhow::Result<(Vec<CompareSource>, bool)> {
    let place = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let (id, results) = (place.file_name().map(|name| name.to_string_lossy().into_owned()), place.ancestors().nth(2));
    let (Some(id), Some(results), true) = (id, results, place.join(EXPERIMENT_FILE).is_file()) else {
        return Err(Failure::new(format!("comparing an experiment found no {EXPERIMENT_FILE}: {dir:?}"))
            .hint("name its folder: `ls results/experiments`")
            .into());
    };
    let found = read_runs(results)?;
    let runs: Vec<CompareSource> = found
        .facts
        .into_iter()
        .filter(|facts| facts.is_of(&id))
        .map(|facts| CompareSource { facts, is_named: false })
        .collect();
    Ok((runs, found.has_unreadable))
}

fn write_files(comparison: &Comparison, output: &Path) -> anyhow::Result<()> {
    let figures = output.join("figures");
    std::fs::create_dir_all(&figures)
        .map_err(|error| Failure::new(format!("creating the output folder failed with {error}: {figures:?}")))?;
    write_bytes_atomically(&output.join("compare.csv"), comparison.compare_csv().as_bytes()).map_err(hinted)?;
    write_bytes_atomically(&output.join("context.csv"), comparison.context_csv().as_bytes()).map_err(hinted)?;
    write_json_atomically(&output.join("compare.json"), comparison).map_err(hinted)?;
    for (name, svg) in comparison_figures(comparison).map_err(hinted)? {
        write_bytes_atomically(&figures.join(name), svg.as_bytes()).map_err(hinted)?;
    }
    Ok(())
}
