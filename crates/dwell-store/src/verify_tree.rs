//! Checking every run of a results directory, and its `manifest.csv` against the folders.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dwell_events::schema::Table;
use serde::Serialize;

use crate::results_tree::FoundRun;
use crate::{ResultsManifest, RunDir, RunState, StoreError, VerifyReport, runs_under, verify};

/// Most runs checked at a time; more would only wait for the disk.
const THREADS_MAX: usize = 4;

/// What a check of a results directory, or of the folder of a model, found.
#[derive(Debug, Serialize)]
pub struct TreeReport {
    /// Every run, by path.
    pub runs: Vec<RunCheck>,
    /// What `manifest.csv` says; `None` if there is none.
    pub manifest: Option<ManifestCheck>,
}

/// One run of a tree.
#[derive(Debug, Serialize)]
pub struct RunCheck {
    /// Path relative to the tree.
    pub path: String,
    /// What was found.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// Model and run that the directory says it is of.
    #[serde(skip)]
    key: Option<(String, String)>,
}

/// What a check of one run found.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every file is as the manifest says.
    Ok {
        /// How many files that are.
        files: usize,
    },
    /// Files are missing, changed or unfit.
    Damaged {
        /// Which ones.
        report: VerifyReport,
    },
    /// The run has no tables yet: it was killed, or is being recorded.
    Unfinished {
        /// How far it has come.
        state: RunState,
    },
    /// There is nothing to check against, or something cannot be read.
    Unverifiable {
        /// Why.
        reason: String,
    },
}

/// What is wrong between `manifest.csv` and the folders. Runs that failed have a row and no folder.
#[derive(Debug, Default, Serialize)]
pub struct ManifestCheck {
    /// Rows of the file.
    pub rows: usize,
    /// Paths of rows that lead to no run.
    pub rows_without_folder: Vec<String>,
    /// Paths of finished runs that no row names.
    pub folders_without_row: Vec<String>,
    /// Why the file cannot be read.
    pub problem: Option<String>,
}

impl TreeReport {
    /// Whether every run is finished and whole, and has its row.
    pub fn is_ok(&self) -> bool {
        self.runs.iter().all(|run| matches!(run.outcome, RunOutcome::Ok { .. }))
            && self.manifest.as_ref().is_none_or(ManifestCheck::is_ok)
    }
}

impl ManifestCheck {
    /// Whether rows and folders agree.
    pub fn is_ok(&self) -> bool {
        self.problem.is_none() && self.rows_without_folder.is_empty() && self.folders_without_row.is_empty()
    }
}

/// Checks every run below `root`, and those of these tables that it has. `checked` is called with the number of runs done
/// and of all.
pub fn verify_tree(
    root: &Path,
    tables: &[Table],
    checked: &(dyn Fn(usize, usize) + Sync),
) -> Result<TreeReport, StoreError> {
    let found = runs_under(root)?;
    let runs = check_runs(root, tables, &found, checked);
    let manifest = ResultsManifest::open(root);
    let manifest = manifest.path().exists().then(|| check_manifest(&manifest, &runs));
    Ok(TreeReport { runs, manifest })
}

fn check_runs(
    root: &Path,
    tables: &[Table],
    found: &[FoundRun],
    checked: &(dyn Fn(usize, usize) + Sync),
) -> Vec<RunCheck> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut checks = Vec::new();
        while let Some(run) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            checks.push(check_run(root, tables, run));
            checked(done.fetch_add(1, Ordering::Relaxed) + 1, found.len());
        }
        checks
    };
    let mut checks: Vec<RunCheck> = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let joined = helpers.into_iter().flat_map(|helper| match helper.join() {
            Ok(checks) => checks,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        own.into_iter().chain(joined.collect::<Vec<_>>()).collect()
    });
    checks.sort_by(|a, b| a.path.cmp(&b.path));
    checks
}

fn check_run(root: &Path, tables: &[Table], found: &FoundRun) -> RunCheck {
    let outcome = found
        .run
        .as_ref()
        .map_or_else(unverifiable, |run| outcome_of(run, tables).unwrap_or_else(|error| unverifiable(&error)));
    let path = found.path.strip_prefix(root).unwrap_or(&found.path).to_string_lossy().into_owned();
    let key = found.run.as_ref().ok().map(|run| (run.model_id().to_owned(), run.run_id().to_owned()));
    RunCheck { path, outcome, key }
}

fn outcome_of(run: &RunDir, tables: &[Table]) -> Result<RunOutcome, StoreError> {
    match run.marker()?.map(|marker| marker.state) {
        Some(state) if !state.is_final() => return Ok(RunOutcome::Unfinished { state }),
        _ => {}
    }
    let report = verify(run.path(), tables)?;
    let files = report.ok.len();
    Ok(if report.is_ok() { RunOutcome::Ok { files } } else { RunOutcome::Damaged { report } })
}

fn unverifiable(error: &StoreError) -> RunOutcome {
    RunOutcome::Unverifiable { reason: error.to_string() }
}

fn check_manifest(manifest: &ResultsManifest, runs: &[RunCheck]) -> ManifestCheck {
    let rows = match manifest.rows() {
        Ok(rows) => rows,
        Err(error) => return ManifestCheck { problem: Some(error.to_string()), ..ManifestCheck::default() },
    };
    let folders: BTreeSet<&str> = runs.iter().map(|run| run.path.as_str()).collect();
    let named: BTreeSet<&str> = rows.iter().map(|row| row.path.as_str()).collect();
    let keys: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row.model_id.as_str(), row.run_id.as_str())).collect();
    // Rows of another tool do not say where their folders are.
    let has_folder = |path: &str| path.is_empty() || folders.contains(path);
    let has_row = |run: &RunCheck| {
        let is_known = run.key.as_ref().is_some_and(|(model, id)| keys.contains(&(model.as_str(), id.as_str())));
        is_known || named.contains(run.path.as_str())
    };
    // A run gets its row when it is finished.
    let is_finished = |run: &&RunCheck| !matches!(run.outcome, RunOutcome::Unfinished { .. });
    let rows_without_folder =
        rows.iter().filter(|row| !row.is_failed() && !has_folder(&row.path)).map(|row| row.path.clone()).collect();
    let folders_without_row =
        runs.iter().filter(is_finished).filter(|run| !has_row(run)).map(|run| run.path.clone()).collect();
    ManifestCheck { rows: rows.len(), rows_without_folder, folders_without_row, problem: None }
}
