//! The experiments of a results directory, in short.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use dwell_files::read_json;
use dwell_report::{EntryState, ExperimentEntry, changed_at_utc};
use dwell_store::{EXPERIMENTS_DIR, ManifestRow, ResultsManifest};
use serde_json::Value;

use crate::experiment_dir::{FINISHED_FILE, LOCK_FILE, RECORD_FILE, is_run_of};

/// Longest record of an experiment that is listed: in memory, any JSON takes up to a hundred times its size.
const LISTED_MAX_BYTES: u64 = 2 << 20;

/// Every execution of an experiment in a results directory. One whose record cannot be read is damaged.
pub fn list_experiments(results: &Path) -> Vec<ExperimentEntry> {
    // Without a manifest that can be read, none is known to have failed.
    let rows = ResultsManifest::open(results).rows().unwrap_or_default();
    let failed: Vec<String> = rows.into_iter().filter(ManifestRow::is_failed).map(|row| row.run_id).collect();
    let folders = fs::read_dir(results.join(EXPERIMENTS_DIR)).into_iter().flatten().flatten();
    let folders = folders.map(|entry| entry.path()).filter(|path| path.join(RECORD_FILE).is_file());
    folders.map(|path| entry(path, &failed)).collect()
}

fn entry(path: PathBuf, failed_run_ids: &[String]) -> ExperimentEntry {
    // Other versions may write other keys: what is listed is all that is needed.
    let record: Option<Value> = read_json("listing experiments", &path.join(RECORD_FILE), LISTED_MAX_BYTES).ok();
    let value = |key: &str| record.as_ref().and_then(|record| record.get(key));
    let experiment_id = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    ExperimentEntry {
        failed_runs: failed_run_ids.iter().filter(|run_id| is_run_of(&experiment_id, run_id)).count() as u64,
        experiment_id,
        name: value("name").and_then(Value::as_str).map(str::to_owned),
        started_at_utc: changed_at_utc(&path.join(RECORD_FILE)),
        state: if record.is_some() { state(&path) } else { EntryState::Damaged },
        planned_runs: value("planned_runs").and_then(Value::as_u64),
        finished_runs: 0,
        path,
    }
}

fn state(path: &Path) -> EntryState {
    match () {
        () if path.join(FINISHED_FILE).is_file() => EntryState::Complete,
        () if is_locked(&path.join(LOCK_FILE)) => EntryState::Recording,
        () => EntryState::Killed,
    }
}

/// Whether a process runs the experiment: it holds the lock as long as it lives.
fn is_locked(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn an_experiment_is_running_while_its_lock_is_held_and_killed_without() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(EXPERIMENTS_DIR).join("20260102T030405Z-338e91");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(place.path().join(EXPERIMENTS_DIR).join("never begun")).unwrap();
        fs::write(folder.join(RECORD_FILE), r#"{"name": "study", "planned_runs": 8}"#).unwrap();
        let lock = File::create(folder.join(LOCK_FILE)).unwrap();
        let only = || {
            let [only]: [ExperimentEntry; 1] = list_experiments(place.path()).try_into().unwrap();
            only
        };
        let found = only();
        assert_eq!(
            (found.name.as_deref(), found.planned_runs, found.state),
            (Some("study"), Some(8), EntryState::Killed)
        );
        let of = |run_id: &str| ManifestRow {
            run_id: run_id.to_owned(),
            state: "failed".to_owned(),
            ..ManifestRow::default()
        };
        for run_id in ["20260102T030405Z-338e91_c0", "20260102T030405Z-000000_c0"] {
            ResultsManifest::open(place.path()).record(&of(run_id)).unwrap();
        }
        assert_eq!(only().failed_runs, 1);
        lock.lock().unwrap();
        assert_eq!(only().state, EntryState::Recording);
        fs::write(folder.join(FINISHED_FILE), "{}").unwrap();
        assert_eq!(only().state, EntryState::Complete);
        fs::write(folder.join(RECORD_FILE), "{").unwrap();
        assert_eq!(only().state, EntryState::Damaged);
    }
}
