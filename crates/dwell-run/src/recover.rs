//! Finishing a run whose observer was killed.

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_ggml::ring::process_exists;
use dwell_store::{RawReader, RunDir, RunState};

use crate::record::Recording;
use crate::{BuildOptions, BuiltRun, RunError, RunListener, TENSOR_OPS_STREAM, build_run};

/// Takes what the killed run left (raw streams, cut anywhere, and the ring) and makes its tables.
pub fn recover_run(path: &Path, options: &BuildOptions, listener: &mut dyn RunListener) -> Result<BuiltRun, RunError> {
    let run = RunDir::open(path)?;
    let marker = run.marker()?;
    let state = marker.as_ref().map_or(RunState::Recording, |marker| marker.state);
    if state.is_final() {
        return Err(RunError::AlreadyComplete { run: path.to_owned() });
    }
    let observer = marker.map(|marker| marker.observer_pid).filter(|&pid| pid != std::process::id());
    if let Some(observer_pid) = observer.filter(|&pid| process_exists(pid) && is_dwell(pid)) {
        return Err(RunError::StillRecording { observer_pid, run: path.to_owned() });
    }
    for ring in rings_in(&run) {
        empty_ring(&run, &ring)?;
    }
    run.set_state(RunState::Building)?;
    let options = BuildOptions { was_observer_killed: state == RunState::Recording, ..options.clone() };
    build_run(&run, &options, listener)
}

/// Process ids are used again; one that now belongs to something else does not hold the run.
fn is_dwell(pid: u32) -> bool {
    let ours = std::env::current_exe().ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    let theirs =
        fs::read_link(format!("/proc/{pid}/exe")).ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    ours.is_none() || ours == theirs
}

fn rings_in(run: &RunDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.raw()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|name| name == "ring")).collect()
}

fn empty_ring(run: &RunDir, ring: &Path) -> Result<(), RunError> {
    let stream = run.raw_stream(TENSOR_OPS_STREAM);
    let mut recording = match next_sequence(&stream) {
        Some(sequence) => Recording::resume(ring, &stream, sequence)?,
        None => Recording::begin(ring, &stream)?,
    };
    recording.drain(|_| {})?;
    recording.finish()?;
    Ok(())
}

/// The number after the last record in a stream; `None` if there is no stream to continue.
fn next_sequence(stream: &Path) -> Option<u64> {
    let mut next = 0;
    for batch in RawReader::open(stream).ok()?.flatten() {
        let sequences = batch.column_by_name("sequence").map(|column| column.as_primitive::<UInt64Type>().values());
        next = sequences.and_then(|values| values.last()).map_or(next, |last| last + 1);
    }
    Some(next)
}
