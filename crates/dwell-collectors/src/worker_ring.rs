//! The worker's ring, emptied into its raw streams. It carries the engine's events in every run, and what the recorder
//! in the worker sees where that is wanted.

use std::path::PathBuf;

use dwell_records::{Frame, Kind};
use dwell_store::{RunDir, StoreError};

use crate::CollectError;
use crate::record_stream::StreamPaths;
use crate::ring_recording::Recording;

/// The ring of a worker that is being recorded.
pub struct WorkerRing {
    ring: PathBuf,
    streams: StreamPaths,
    /// None until the worker has made its ring.
    recording: Option<Recording>,
}

impl WorkerRing {
    /// The ring that a worker is going to make.
    pub fn new(run: &RunDir, worker_pid: u32) -> Self {
        let ring = run.raw().join(dwell_ring::file_name(worker_pid));
        Self { ring, streams: StreamPaths::of_worker(run), recording: None }
    }

    /// Whether the worker has made its ring.
    pub fn has_begun(&self) -> bool {
        self.recording.is_some()
    }

    /// Takes in what waits in the ring, telling `seen` of each record. Says whether anything was computed.
    pub fn drain(&mut self, mut seen: impl FnMut(&Frame<'_>)) -> Result<bool, CollectError> {
        if self.recording.is_none() && self.ring.exists() {
            self.recording = Some(Recording::begin(&self.ring, &self.streams)?);
        }
        let mut has_computed = false;
        if let Some(recording) = &mut self.recording {
            recording.drain(|frame| {
                has_computed |= frame.kind == Kind::Step as u16;
                seen(frame);
            })?;
        }
        Ok(has_computed)
    }

    /// Time for which the worker waited for room.
    pub fn blocked_ns(&self) -> u64 {
        self.recording.as_ref().map_or(0, Recording::blocked_ns)
    }

    /// Writes what is left and ends the streams.
    pub fn finish(self) -> Result<(), StoreError> {
        self.recording.map_or(Ok(()), Recording::finish)
    }
}
