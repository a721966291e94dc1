//! The runs and experiments below a folder, in short: what `dwell ls` lists.
//!
//! Nothing found there is an error: a run that was killed, is damaged or was made by another program is an entry that says
//! so.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use dwell_events::schema::Table;
use dwell_metadata::RunMetadata;
use dwell_store::{EXPERIMENTS_DIR, FoundRun, RunDir, RunMarker, RunState, TreeKind, runs_under, tree_kind, utc_text};
use serde::Serialize;

use crate::ReportError;
use crate::run_results::read_metadata;

dwell_events::choices! {
    /// How far a run or an experiment has come.
    EntryState {
        /// Everything that should be there is.
        Complete = "complete",
        /// It is finished, and something that should be there is missing.
        Partial = "partial",
        /// Its process is recording.
        Recording = "recording",
        /// Its process is writing the tables.
        Building = "building",
        /// It came to its end, and some of its runs failed.
        Failed = "failed",
        /// Its process ended before it was finished.
        Killed = "killed",
        /// A file of it cannot be read.
        Damaged = "damaged",
        /// Another program made it.
        Foreign = "foreign",
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunEntry {
    /// Its directory. In JSON, what is not UTF-8 in it is replaced: else the whole list could not be written.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The run.
    pub run_id: String,
    /// The model that was run.
    pub model_id: String,
    /// What ran it.
    pub engine: Option<String>,
    /// The execution of the experiment that it belongs to.
    pub experiment_id: Option<String>,
    /// When it began; of a run that says nothing, when its directory last changed.
    pub started_at_utc: String,
    /// How far it has come.
    pub state: EntryState,
    /// Rows of its trace.
    pub rows: Option<u64>,
    /// Tokens of all prompts.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Tokens per second in decode steps.
    pub decode_tokens_per_s: Option<f64>,
    /// Whether the run was disturbed.
    pub validity: Option<String>,
    /// Whether what was recorded is whole enough to be used.
    pub quality: Option<String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// Why it failed, or what cannot be read.
    pub problem: Option<String>,
}

/// One execution of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentEntry {
    /// Its folder; in JSON as text, like that of a run.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Identifies the execution.
    pub experiment_id: String,
    /// Name of the experiment.
    pub name: Option<String>,
    /// When it began.
    pub started_at_utc: String,
    /// How far it has come; `recording` while its process runs.
    pub state: EntryState,
    /// Runs that it plans.
    pub planned_runs: Option<u64>,
    /// Runs in the same list that belong to it and are finished.
    pub finished_runs: u64,
    /// Runs that failed, the last time that they were tried.
    pub failed_runs: u64,
}

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Runs and experiments, each newest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResultsList {
    /// The runs.
    pub runs: Vec<RunEntry>,
    /// The experiments.
    pub experiments: Vec<ExperimentEntry>,
}

impl ResultsList {
    /// Lists runs with the experiments that some of them belong to.
    pub fn new(mut runs: Vec<RunEntry>, mut experiments: Vec<ExperimentEntry>) -> Self {
        for experiment in &mut experiments {
            let is_of = |run: &&RunEntry| run.experiment_id.as_deref() == Some(&experiment.experiment_id);
            let is_finished = |run: &&RunEntry| matches!(run.state, EntryState::Complete | EntryState::Partial);
            experiment.finished_runs = runs.iter().filter(is_of).filter(is_finished).count() as u64;
            let ended_runs = experiment.finished_runs + experiment.failed_runs;
            // Nobody ended it: every run was tried.
            if experiment.state == EntryState::Killed && experiment.planned_runs.is_some_and(|runs| runs <= ended_runs)
            {
                experiment.state = EntryState::Failed;
            }
        }
        runs.sort_by(|a, b| (&b.started_at_utc, &a.path).cmp(&(&a.started_at_utc, &b.path)));
        experiments.sort_by(|a, b| (&b.started_at_utc, &a.path).cmp(&(&a.started_at_utc, &b.path)));
        Self { runs, experiments }
    }

    /// Bytes of all runs.
    pub fn size_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.size_bytes).fold(0, u64::saturating_add)
    }

    /// Whether a run can be finished with `dwell recover`.
    pub fn has_killed_run(&self) -> bool {
        self.runs.iter().any(|run| run.state == EntryState::Killed)
    }
}

/// Every run of a results directory, of a folder of one, or below a folder of several. `is_running` tells of a process id
/// whether a dwell runs there.
pub fn list_runs(root: &Path, is_running: &dyn Fn(u32) -> bool) -> Vec<RunEntry> {
    runs_below(root).into_iter().map(|found| entry(&found, is_running)).collect()
}

/// A folder that cannot be listed has no runs: what else is there is listed all the same.
fn runs_below(root: &Path) -> Vec<FoundRun> {
    if matches!(tree_kind(root), Ok(TreeKind::Run)) {
        return runs_under(root).unwrap_or_default();
    }
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|found| found.is_dir()));
    let folders = folders.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let folders = folders.map(|entry| entry.path()).filter(|path| !path.ends_with(EXPERIMENTS_DIR));
    folders.flat_map(|path| runs_under(&path).unwrap_or_default()).collect()
}

fn entry(found: &FoundRun, is_running: &dyn Fn(u32) -> bool) -> RunEntry {
    let described = match &found.run {
        Ok(run) => describe(run, &found.path, is_running).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    described.unwrap_or_else(|problem| RunEntry::damaged(&found.path, problem))
}

impl RunEntry {
    /// A run that cannot be read, for this reason.
    pub fn damaged(path: &Path, problem: String) -> Self {
        Self { state: EntryState::Damaged, problem: Some(problem), ..named_by_folder(path) }
    }
}

fn describe(run: &RunDir, path: &Path, is_running: &dyn Fn(u32) -> bool) -> Result<RunEntry, ReportError> {
    let named = named_by_folder(path);
    let named = RunEntry { run_id: run.run_id().to_owned(), model_id: run.model_id().to_owned(), ..named };
    let marker = run.marker()?;
    if let Some(marker) = marker.as_ref().filter(|marker| !marker.state.is_final()) {
        let state = unfinished_state(marker, is_running);
        return Ok(RunEntry { state, started_at_utc: marker.changed_at_utc.clone(), ..named });
    }
    match (read_metadata(run)?, marker) {
        (Some(metadata), marker) => Ok(of_metadata(&metadata, marker.as_ref(), named)),
        (None, None) => Ok(RunEntry { state: EntryState::Foreign, ..named }),
        (None, Some(_)) => Err(ReportError::UnfitFile {
            action: "reading a run",
            found: "no metadata.json".to_owned(),
            path: path.to_owned(),
        }),
    }
}

fn unfinished_state(marker: &RunMarker, is_running: &dyn Fn(u32) -> bool) -> EntryState {
    match marker.state {
        _ if !is_running(marker.observer_pid) => EntryState::Killed,
        RunState::Building => EntryState::Building,
        _ => EntryState::Recording,
    }
}

fn of_metadata(metadata: &RunMetadata, marker: Option<&RunMarker>, named: RunEntry) -> RunEntry {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let state = EntryState::from_name(&metadata.state);
    let state = state.or(marker.map(|_| EntryState::Complete)).unwrap_or(EntryState::Foreign);
    RunEntry {
        engine: known(&metadata.engine),
        experiment_id: metadata.experiment.as_ref().map(|experiment| experiment.id.clone()),
        started_at_utc: known(&metadata.started_at_utc).unwrap_or(named.started_at_utc),
        state,
        rows: metadata.tables.get(Table::Trace.name()).map(|table| table.rows),
        prompt_tokens: metadata.generation.map(|generation| generation.prompt_tokens),
        generated_tokens: metadata.generation.map(|generation| generation.generated_tokens),
        decode_tokens_per_s: metadata.generation.and_then(|generation| generation.decode_tokens_per_s),
        validity: metadata.validity.as_ref().map(|validity| validity.class.name().to_owned()),
        quality: metadata.quality.as_ref().map(|quality| quality.status.name().to_owned()),
        problem: metadata.failure.clone(),
        ..named
    }
}

/// What the directory alone says.
fn named_by_folder(path: &Path) -> RunEntry {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    RunEntry {
        run_id: name(Some(path)),
        model_id: name(path.parent()),
        engine: None,
        experiment_id: None,
        started_at_utc: changed_at_utc(path),
        state: EntryState::Foreign,
        rows: None,
        prompt_tokens: None,
        generated_tokens: None,
        decode_tokens_per_s: None,
        validity: None,
        quality: None,
        size_bytes: size_bytes_of(path),
        problem: None,
        path: path.to_owned(),
    }
}

/// When a file or folder last changed.
pub fn changed_at_utc(path: &Path) -> String {
    let changed = fs::metadata(path).and_then(|found| found.modified()).ok();
    let since_epoch = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    utc_text(since_epoch.map_or(0, |since| since.as_secs()))
}

/// Bytes of all files below a folder. Links are not followed.
fn size_bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_bytes_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn run(results: &Path, id: &str, state: RunState) -> RunDir {
        let run = RunDir::create(results, "tiny", id).unwrap();
        run.set_state(state).unwrap();
        run
    }

    #[test]
    fn whatever_became_of_a_run_it_is_listed_with_it() {
        let place = tempfile::tempdir().unwrap();
        let whole = run(place.path(), "whole", RunState::Complete);
        let metadata = r#"{"metadata_schema_version": "1.5", "state": "complete", "engine": "llama_cpp",
            "started_at_utc": "2026-01-02T03:04:05Z", "tables": {"trace": {"rows": 7, "basis": "exact", "source": "tensor_ops"}},
            "generation": {"prompt_tokens": 3, "generated_tokens": 5, "decode_tokens_per_s": 2.5}}"#;
        fs::write(whole.metadata_json(), metadata).unwrap();
        run(place.path(), "going", RunState::Recording);
        run(place.path(), "cut", RunState::Building);
        fs::write(run(place.path(), "broken", RunState::Partial).metadata_json(), "{").unwrap();
        fs::create_dir_all(place.path().join("other/theirs")).unwrap();
        fs::write(place.path().join("other/theirs/metadata.json"), "{}").unwrap();
        fs::create_dir_all(place.path().join("holiday/pictures")).unwrap();
        let is_running = |_| true;
        let states = |is_running: &dyn Fn(u32) -> bool| {
            let list = ResultsList::new(list_runs(place.path(), is_running), Vec::new());
            let mut states: Vec<(String, EntryState)> =
                list.runs.iter().map(|run| (run.run_id.clone(), run.state)).collect();
            states.sort();
            states
        };
        let expected = [
            ("broken", EntryState::Damaged),
            ("cut", EntryState::Building),
            ("going", EntryState::Recording),
            ("theirs", EntryState::Foreign),
            ("whole", EntryState::Complete),
        ];
        assert_eq!(states(&is_running), expected.map(|(id, state)| (id.to_owned(), state)));
        assert_eq!(
            states(&|_| false)[1..3].iter().map(|(_, state)| *state).collect::<Vec<_>>(),
            [EntryState::Killed; 2]
        );
        let list = list_runs(&place.path().join("tiny/whole"), &is_running);
        let whole = &list[0];
        assert_eq!((whole.rows, whole.generated_tokens, whole.decode_tokens_per_s), (Some(7), Some(5), Some(2.5)));
        assert!(whole.size_bytes > metadata.len() as u64, "raw/STATE counts too");
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_listed_as_text() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"results/m\xff/r"));
        let listed = serde_json::to_value(named_by_folder(path)).unwrap();
        assert_eq!(listed["path"], "results/m\u{fffd}/r");
    }

    #[test]
    fn the_newest_run_comes_first_and_an_experiment_counts_its_runs() {
        let dated = |id: &str, at: &str| RunEntry {
            run_id: id.to_owned(),
            started_at_utc: at.to_owned(),
            experiment_id: Some("e".to_owned()),
            state: if id == "b" { EntryState::Killed } else { EntryState::Complete },
            ..named_by_folder(Path::new("/nowhere/m/r"))
        };
        let experiment = ExperimentEntry {
            path: PathBuf::from("experiments/e"),
            experiment_id: "e".to_owned(),
            name: Some("study".to_owned()),
            started_at_utc: String::new(),
            state: EntryState::Killed,
            planned_runs: Some(3),
            finished_runs: 0,
            failed_runs: 1,
        };
        let runs = vec![
            dated("a", "2026-01-01T00:00:00Z"),
            dated("b", "2026-01-03T00:00:00Z"),
            dated("c", "2026-01-02T00:00:00Z"),
        ];
        let killed = ExperimentEntry { failed_runs: 0, ..experiment.clone() };
        assert_eq!(ResultsList::new(runs.clone(), vec![killed]).experiments[0].state, EntryState::Killed);
        let list = ResultsList::new(runs, vec![experiment]);
        assert_eq!(list.experiments[0].state, EntryState::Failed, "two finished and one failed are all");
        assert_eq!(list.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(list.experiments[0].finished_runs, 2);
    }
}
