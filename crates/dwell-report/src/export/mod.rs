//! A folder that is ready to be published: the runs, and all that a stranger needs to use them.

mod card;
mod exporter;
mod folder;
mod hugging_face;
mod identity;
mod licence;
mod losses;
mod manifest;
mod origin;
mod paths;
mod zenodo;

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dwell_events::schema::Table;
use dwell_files::FileError;
use dwell_store::{Manifest, RunDir, StoreError, check_name, hash_file, manifest_of, verify};
use serde::Serialize;

use crate::aggregate::{Aggregate, AggregateOptions, aggregate};
use crate::dictionary::{data_dictionary, dictionary_csv};
use crate::exclusion::{ExclusionReason, exclusion_of, exclusions_and_inclusions_text, exclusions_text};
use crate::figures::experiment_figures;
use crate::run_results::RunResults;
use crate::{Exclusion, ReportError};

pub use exporter::{EXPORTERS, Exporter};
pub use folder::dataset_staging;
use folder::{Folder, LOG_ENDING};
pub(crate) use identity::IDENTITY_COLUMNS;
use identity::Identity;
use licence::Licence;
pub use licence::spdx_licence;
use origin::Origin;

/// Most runs that are copied at a time: each holds a part of a table in memory.
const THREADS_MAX: usize = 4;

/// What to export, and how.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// Where the runs were looked for.
    pub source: PathBuf,
    /// Folder to make.
    pub target: PathBuf,
    /// Where it grows until it is whole, from [`dataset_staging`].
    pub staging: PathBuf,
    /// Where it is to be published.
    pub exporter: &'static dyn Exporter,
    /// The licence as an SPDX expression; that of the experiments if none is given.
    pub licence: Option<String>,
    /// Title; the name of the experiment if none is given.
    pub title: Option<String>,
    /// Whether what the collectors wrote goes with the tables.
    pub with_raw: bool,
    /// Whether runs that do not count are exported too.
    pub all: bool,
    /// Tables that runs can have, those of collectors included.
    pub tables: Vec<Table>,
}

/// What was exported.
#[derive(Clone, Debug, Serialize)]
pub struct ExportReport {
    /// The folder.
    pub target: PathBuf,
    /// Runs in it.
    pub runs: usize,
    /// Runs that were left out.
    pub excluded: Vec<Exclusion>,
    /// The same in words, with the runs that were taken in though they do not count.
    pub exclusions: String,
    /// Files in it.
    pub files: usize,
    /// Their size.
    pub size_bytes: u64,
    /// Paths that were shortened to file names in the metadata.
    pub shortened_paths: usize,
    /// What is left to do before it can be published.
    pub left_to_do: Vec<String>,
}

/// What the pages of a dataset are written from.
pub struct Dataset<'a> {
    title: String,
    licence: Licence,
    runs: Vec<&'a RunResults>,
    excluded: Vec<Exclusion>,
    /// Runs that are in it though they do not count.
    included: Vec<Exclusion>,
    aggregate: Aggregate,
    origin: Origin,
    losses: Vec<losses::LossTotal>,
    exporter: &'static dyn Exporter,
    tables: &'a [Table],
}

/// Makes the folder. It appears whole or not at all.
pub fn export(
    runs: &[RunResults],
    request: &ExportRequest,
    on_run: &(dyn Fn(&RunResults) + Sync),
) -> Result<ExportReport, ReportError> {
    let runs: Vec<RunResults> = runs.iter().map(without_paths).collect();
    let dataset = Dataset::gather(&runs, request)?;
    let folder = Folder::create(&request.target, &request.staging)?;
    copy_runs(&dataset.runs, request, &folder, on_run)?;
    dataset.write_pages(&folder)?;
    folder.seal()?;
    let written = std::mem::take(&mut *folder.written());
    folder.publish()?;
    let left_to_do = dataset.origin.authors().is_empty().then(|| {
        "no run names its authors: put them into the files of the dataset, or into `experiment.authors`".to_owned()
    });
    Ok(ExportReport {
        target: request.target.clone(),
        runs: dataset.runs.len(),
        exclusions: dataset.exclusions_text(),
        excluded: dataset.excluded,
        files: written.files(),
        size_bytes: written.size_bytes,
        shortened_paths: written.shortened_paths,
        left_to_do: left_to_do.into_iter().collect(),
    })
}

/// The run with metadata that can be told: in what is published, no folder of this machine is named. Its configuration is
/// then the one that the published metadata gives.
fn without_paths(run: &RunResults) -> RunResults {
    let mut run = run.clone();
    run.metadata.failure = run.metadata.failure.map(|text| paths::shortened(&text).0);
    run.metadata.options.values_mut().for_each(|value| {
        paths::shorten_paths(value);
    });
    run
}

impl<'a> Dataset<'a> {
    fn gather(runs: &'a [RunResults], request: &'a ExportRequest) -> Result<Self, ReportError> {
        let finished = ExclusionReason::ALL.into_iter().filter(|reason| reason.can_be_included());
        let include: Vec<ExclusionReason> = if request.all { finished.collect() } else { Vec::new() };
        let excluded: Vec<Exclusion> = runs.iter().filter_map(|run| exclusion_of(run, &include)).collect();
        let chosen: Vec<&RunResults> = runs.iter().filter(|run| exclusion_of(run, &include).is_none()).collect();
        if chosen.is_empty() {
            return Err(ReportError::NothingToExport {
                found_runs: runs.len(),
                has_finished: runs.iter().any(RunResults::is_finished),
                why: exclusions_text(&excluded),
                path: request.source.clone(),
            });
        }
        let licence = Licence::choose(request.licence.as_deref(), &chosen)?;
        let origin = Origin::of(&chosen);
        let included: Vec<Exclusion> = chosen.iter().filter_map(|run| exclusion_of(run, &[])).collect();
        let averaged = include.into_iter().filter(|reason| !reason.is_of_no_repetition()).collect();
        let title = request.title.clone().unwrap_or_else(|| origin.default_title());
        Ok(Self {
            title,
            licence,
            aggregate: aggregate(runs, &AggregateOptions { include: averaged, ..AggregateOptions::default() })?,
            losses: losses::totals(&chosen)?,
            runs: chosen,
            excluded,
            included,
            origin,
            exporter: request.exporter,
            tables: &request.tables,
        })
    }

    /// Which runs are not in it, which are though they do not count, and which of these are in no average.
    fn exclusions_text(&self) -> String {
        let text = exclusions_and_inclusions_text(&self.excluded, &self.included);
        match self.included.iter().filter(|run| run.reason.is_of_no_repetition()).count() {
            0 => text,
            1 => format!("{text}; 1 of them is in no average"),
            count => format!("{text}; {count} of them are in no average"),
        }
    }

    fn write_pages(&self, folder: &Folder) -> Result<(), ReportError> {
        let dictionary = data_dictionary(self.tables);
        folder.write("README.md", card::readme(self, &dictionary).as_bytes())?;
        folder.write("LICENSE.txt", self.licence.text().as_bytes())?;
        folder.write("data_dictionary.csv", dictionary_csv(&dictionary).as_bytes())?;
        folder.write_json("data_dictionary.json", &dictionary)?;
        folder.write("manifest.csv", manifest::manifest_csv(&self.runs)?.as_bytes())?;
        folder.write("summary.csv", self.aggregate.summary_csv().as_bytes())?;
        for figure in experiment_figures(&self.aggregate)? {
            folder.write(&format!("figures/{}.svg", figure.name()), figure.svg().as_bytes())?;
            folder.write(&format!("figures/{}.csv", figure.name()), figure.csv().as_bytes())?;
        }
        self.exporter.files(self).iter().try_for_each(|(name, content)| folder.write(name, content.as_bytes()))
    }
}

/// Where a run lies in the dataset.
fn place_of(run: &RunResults) -> String {
    format!("data/{}/{}", run.metadata.model_id, run.metadata.run_id)
}

/// Copies runs on several threads: most of it is compressing their tables again.
fn copy_runs(
    runs: &[&RunResults],
    request: &ExportRequest,
    folder: &Folder,
    on_run: &(dyn Fn(&RunResults) + Sync),
) -> Result<(), ReportError> {
    let mut places = HashSet::new();
    if let Some(run) = runs.iter().find(|run| !places.insert(place_of(run))) {
        return Err(ReportError::SameName { name: place_of(run), run: run.path.clone() });
    }
    let next = AtomicUsize::new(0);
    let copy = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            on_run(run);
            // After an error, no other run is begun.
            copy_run(run, request, folder).inspect_err(|_| next.store(runs.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(copy)).collect();
        let own = copy();
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.fold(own, Result::and)
    })
}

/// Copies a run that is what its manifest says; anything else stops the export.
fn copy_run(run: &RunResults, request: &ExportRequest, folder: &Folder) -> Result<(), ReportError> {
    let damaged = |problem: String| ReportError::DamagedRun { problem, run: run.path.clone() };
    let report = match verify(&run.path, &request.tables) {
        Ok(report) => report,
        Err(StoreError::File(FileError::NotFound { .. })) => return Err(damaged("it has no manifest".to_owned())),
        Err(error) => return Err(error.into()),
    };
    let problem = report
        .changed
        .first()
        .map(|file| format!("{} has changed", file.path))
        .or_else(|| report.missing.first().map(|file| format!("{file} is missing")))
        .or_else(|| report.table_problems.first().map(|table| table.problem.clone()));
    if let Some(problem) = problem {
        return Err(damaged(problem));
    }
    // They come from the run's metadata, which may come from anywhere.
    check_name("model id", &run.metadata.model_id)?;
    check_name("run id", &run.metadata.run_id)?;
    let place = place_of(run);
    let manifest = Manifest::read(&run.path)?;
    let identity = Identity::of(run);
    for file in manifest.files.iter().filter(|file| request.with_raw || !file.path.starts_with("raw/")) {
        let (from, to) = (run.path.join(&file.path), format!("{place}/{}", file.path));
        // Tables lie beside the manifest; what is in a folder is copied as it is.
        let is_table = !file.path.contains('/') && folder.copy_table(&from, &to, &identity, &request.tables)?;
        if !is_table {
            folder.copy(&from, &to)?;
        } else if hash_file(&from)?.1 != file.sha256 {
            return Err(damaged(format!("{} changed while it was copied", file.path)));
        }
    }
    let sealed = manifest_of(&RunDir::open(&folder.path(&place))?)?;
    if let Some(path) = changed_in(&manifest, &sealed) {
        return Err(damaged(format!("{path} changed while it was copied")));
    }
    folder.write_json(&format!("{place}/manifest.json"), &sealed)
}

/// A file of a copy whose content is not that of the original. JSON files and logs may differ, because paths in them are
/// shortened, and so may tables, which have further columns.
fn changed_in(original: &Manifest, copy: &Manifest) -> Option<String> {
    let differs =
        |path: &str, sha256: &str| original.files.iter().any(|file| file.path == path && file.sha256 != sha256);
    let is_table = |path: &str| !path.contains('/') && (path.ends_with(".parquet") || path.ends_with(".csv"));
    let is_shortened = |path: &str| path.ends_with(".json") || path.ends_with(LOG_ENDING);
    let mut compared = copy.files.iter().filter(|file| !is_shortened(&file.path) && !is_table(&file.path));
    compared.find(|file| differs(&file.path, &file.sha256)).map(|file| file.path.clone())
}
