//! What a run that is being recorded would be if it ended now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use dwell_collectors::rings;
use dwell_files::write_json_atomically;
use dwell_metadata::{RecordingEnd, RunRecord};
use dwell_store::{RunDir, RunState, StoreError};

use crate::{BuildError, BuildSetup, NoListener, build_run};

const ACTION: &str = "taking a snapshot of a run";

/// Builds what a run has recorded so far below another folder. The run is only read, and goes on.
///
/// What is still in rings or in memory of the observer is left out.
pub fn build_snapshot(run: &RunDir, folder: &Path) -> Result<RunDir, BuildError> {
    if !run.raw().join(RunRecord::FILE_NAME).is_file() {
        return Err(BuildError::NothingRecorded { run: run.path().to_owned() });
    }
    let snapshot = RunDir::create(folder, run.model_id(), run.run_id())?;
    link_streams(&run.raw(), &snapshot.raw())?;
    let end = snapshot.raw().join(RecordingEnd::FILE_NAME);
    if !end.exists() {
        // Without this file the observer counts as killed.
        write_json_atomically(&end, &RecordingEnd::default()).map_err(StoreError::from)?;
    }
    snapshot.set_state(RunState::Building)?;
    build_run(&snapshot, &BuildSetup::drawing(&[]), &mut NoListener)?;
    Ok(snapshot)
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError::from_io(ACTION, path, error)
}

/// Links to the files of `raw/`, so that nothing is copied. Those that belong to the recording itself are left out: its rings, and
/// the state, of which the snapshot has its own.
fn link_streams(from: &Path, to: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let entry = entry.map_err(failed(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed(&source))?.is_dir() {
            fs::create_dir(&target).map_err(failed(&target))?;
            link_streams(&source, &target)?;
        } else if !target.exists() && !rings::is_ring(&source) {
            symlink(&source, &target).map_err(failed(&target))?;
        }
    }
    Ok(())
}
