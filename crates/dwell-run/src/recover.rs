//! Finishing a run whose observer was killed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dwell_analysis::Options;
use dwell_ggml::ring::process_exists;
use dwell_store::{RunDir, RunState, StoreError};

use crate::raw_records::RawRecords;
use crate::record::{Recording, holds_records_from};
use crate::recordings::program_stream;
use crate::{BuiltRun, RunError, RunListener, RunRecord, TENSOR_OPS_STREAM, build_run, rings};

/// How long processes that were killed, or whose parent was, may take to die; the kernel sees to it.
const LONGEST_DYING: Duration = Duration::from_secs(2);

/// Takes what the killed run left (raw streams, cut anywhere, and the ring) and makes its tables.
///
/// `adjust` may change how metrics are computed.
pub fn recover_run(
    path: &Path,
    adjust: &dyn Fn(Options) -> Options,
    listener: &mut dyn RunListener,
) -> Result<BuiltRun, RunError> {
    let run = RunDir::open(path)?;
    let marker = run.marker()?;
    let state = marker.as_ref().map_or(RunState::Recording, |marker| marker.state);
    if state.is_final() && run.manifest_json().is_file() {
        return Err(RunError::AlreadyComplete { run: path.to_owned() });
    }
    if !run.raw().join(RunRecord::FILE_NAME).is_file() {
        return Err(RunError::NothingRecorded { run: path.to_owned() });
    }
    ensure_unattended(&run)?;
    // With this process in the marker, a second recovery at the same time is refused.
    run.set_state(state)?;
    for ring in rings::waiting(&run) {
        empty_ring(&ring, &run.raw_stream(TENSOR_OPS_STREAM))?;
    }
    for ring in rings::waiting_of_programs(&run) {
        empty_ring(&ring, &program_stream(&ring))?;
    }
    rings::remove_unfinished(&run);
    run.set_state(RunState::Building)?;
    build_run(&run, adjust, listener)
}

/// Refuses a run whose observer or worker is still at work. One that has been killed is given the time to die.
pub fn ensure_unattended(run: &RunDir) -> Result<(), RunError> {
    let started_at = Instant::now();
    while let Some(pid) = attendant(run)? {
        if started_at.elapsed() >= LONGEST_DYING {
            return Err(RunError::StillRecording { pid, run: run.path().to_owned() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The observer of a run or, without one, its worker, if it runs.
fn attendant(run: &RunDir) -> Result<Option<u32>, RunError> {
    let observer = run.marker()?.map(|marker| marker.observer_pid).filter(|&pid| pid != std::process::id());
    let workers = rings::waiting(run);
    let workers = workers.iter().filter_map(|ring| rings::producer_pid(ring));
    Ok(observer.into_iter().chain(workers).find(|&pid| is_running_dwell(pid)))
}

/// Process ids are used again; one that now belongs to something else does not hold the run.
fn is_running_dwell(pid: u32) -> bool {
    let program_name = |link: &str| {
        let path = fs::read_link(link).ok()?;
        // The kernel says this of a program that was replaced while it runs.
        Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
    };
    let ours = program_name("/proc/self/exe");
    process_exists(pid) && (ours.is_none() || ours == program_name(&format!("/proc/{pid}/exe")))
}

/// Appends what a ring still holds to the stream.
fn empty_ring(ring: &Path, stream: &Path) -> Result<(), RunError> {
    let mut records = RawRecords::open(stream)?;
    while records.next_batch().is_some() {}
    match holds_records_from(ring, records.next_sequence()) {
        // What it held is lost, and counted; what was written out of it before is not.
        Err(RunError::Ring { .. }) => return Ok(rings::set_aside(ring)?),
        // The stream is left as it is: a torn end is then a loss, which continuing the stream would hide.
        Ok(false) => {
            return Ok(
                fs::remove_file(ring).map_err(|error| StoreError::from_io("removing an empty ring", ring, error))?
            );
        }
        outcome => outcome?,
    };
    let mut recording = if records.has_header() {
        Recording::resume(ring, stream, records.next_sequence())?
    } else {
        remove_if_there(stream)?;
        Recording::begin(ring, stream)?
    };
    recording.drain(|_| {})?;
    Ok(recording.finish()?)
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::from_io("replacing an empty raw stream", path, error))
        }
        _ => Ok(()),
    }
}
