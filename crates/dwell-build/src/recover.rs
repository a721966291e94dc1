//! Finishing a run whose observer was killed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dwell_collectors::{rings, salvage};
use dwell_metadata::RunRecord;
use dwell_ring::process_exists;
use dwell_store::{RunDir, RunState};

use crate::import::IMPORT_FILE;
use crate::{BuildError, BuildListener, BuildSetup, BuiltRun, build_run};

/// How long processes that were killed, or whose parent was, may take to die; the kernel sees to it.
const LONGEST_DYING: Duration = Duration::from_secs(2);

/// Takes what the killed run left (raw streams, cut anywhere, and the ring) and makes its tables.
pub fn recover_run(
    path: &Path,
    setup: &BuildSetup<'_>,
    listener: &mut dyn BuildListener,
) -> Result<BuiltRun, BuildError> {
    let run = RunDir::open(path)?;
    let marker = run.marker()?;
    let state = marker.as_ref().map_or(RunState::Recording, |marker| marker.state);
    if state.is_final() && run.manifest_json().is_file() {
        return Err(BuildError::AlreadyBuilt { run: path.to_owned() });
    }
    if run.raw().join(IMPORT_FILE).is_file() {
        ensure_unattended(&run)?;
        return Err(BuildError::ImportKilled { run: path.to_owned() });
    }
    if !run.raw().join(RunRecord::FILE_NAME).is_file() {
        return Err(BuildError::NothingRecorded { run: path.to_owned() });
    }
    ensure_unattended(&run)?;
    // With this process in the marker, a second recovery at the same time is refused.
    run.set_state(state)?;
    salvage(&run)?;
    run.set_state(RunState::Building)?;
    build_run(&run, setup, listener)
}

/// Refuses a run whose observer or worker is still at work. One that has been killed is given the time to die.
pub fn ensure_unattended(run: &RunDir) -> Result<(), BuildError> {
    let started_at = Instant::now();
    while let Some(pid) = attendant(run)? {
        if started_at.elapsed() >= LONGEST_DYING {
            return Err(BuildError::StillRecording { pid, run: run.path().to_owned() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The observer of a run or, without one, its worker, if it runs.
fn attendant(run: &RunDir) -> Result<Option<u32>, BuildError> {
    let observer = run.marker()?.map(|marker| marker.observer_pid).filter(|&pid| pid != std::process::id());
    let workers = rings::waiting(run);
    let workers = workers.iter().filter_map(|ring| rings::producer_pid(ring));
    Ok(observer.into_iter().chain(workers).find(|&pid| is_running_dwell(pid)))
}

/// Whether a process runs the program of this one. Process ids are used again; one that now belongs to something else does
/// not hold the run.
pub fn is_running_dwell(pid: u32) -> bool {
    let program_name = |link: &str| {
        let path = fs::read_link(link).ok()?;
        // The kernel says this of a program that was replaced while it runs.
        Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
    };
    let ours = program_name("/proc/self/exe");
    process_exists(pid) && (ours.is_none() || ours == program_name(&format!("/proc/{pid}/exe")))
}
