//! Every ring of a run, emptied into its raw streams: that of the worker, and those that programs made into which the
//! recorder was loaded.

use std::path::PathBuf;

use dwell_records::{Frame, Kind};
use dwell_store::{RunDir, StoreError};

use crate::record_stream::StreamPaths;
use crate::ring_recording::Recording;
use crate::{CollectError, rings};

/// The rings of a run that is being recorded.
pub struct Recordings {
    worker_ring: PathBuf,
    worker_streams: StreamPaths,
    worker: Option<Recording>,
    /// Folder in which other programs make their rings; none if there are no others.
    programs_dir: Option<PathBuf>,
    programs: Vec<ProgramRecording>,
}

struct ProgramRecording {
    ring: PathBuf,
    recording: Recording,
}

impl Recordings {
    /// Of a worker, and of programs if it starts any.
    pub fn new(run: &RunDir, worker_pid: u32, has_programs: bool) -> Self {
        Self {
            worker_ring: run.raw().join(dwell_ring::file_name(worker_pid)),
            worker_streams: StreamPaths::of_worker(run),
            worker: None,
            programs_dir: has_programs.then(|| rings::programs_dir(run)),
            programs: Vec::new(),
        }
    }

    /// Whether the worker has made its ring.
    pub fn have_begun(&self) -> bool {
        self.worker.is_some()
    }

    /// Opens rings that have appeared since the last look.
    pub fn open_new(&mut self) -> Result<(), CollectError> {
        if self.worker.is_none() && self.worker_ring.exists() {
            self.worker = Some(Recording::begin(&self.worker_ring, &self.worker_streams)?);
        }
        let found = self.programs_dir.as_deref().map(rings::in_dir).unwrap_or_default();
        for ring in found {
            if !self.programs.iter().any(|program| program.ring == ring) {
                let recording = Recording::begin(&ring, &StreamPaths::of_program(&ring))?;
                self.programs.push(ProgramRecording { ring, recording });
            }
        }
        Ok(())
    }

    /// Takes in what waits in all rings, telling `seen` of the worker's records. Says whether anything was computed.
    pub fn drain(&mut self, mut seen: impl FnMut(&Frame<'_>)) -> Result<bool, StoreError> {
        let mut has_computed = false;
        let is_step = |frame: &Frame<'_>| frame.kind == Kind::Step as u16;
        if let Some(worker) = &mut self.worker {
            worker.drain(|frame| {
                has_computed |= is_step(frame);
                seen(frame);
            })?;
        }
        for program in &mut self.programs {
            program.recording.drain(|frame| has_computed |= is_step(frame))?;
        }
        Ok(has_computed)
    }

    /// Time for which recorded processes waited for room.
    pub fn blocked_ns(&self) -> u64 {
        let programs = self.programs.iter().map(|program| &program.recording);
        self.worker.iter().chain(programs).map(Recording::blocked_ns).sum()
    }

    /// Writes what is left and ends all streams.
    pub fn finish(self) -> Result<(), StoreError> {
        let programs = self.programs.into_iter().map(|program| program.recording);
        // Every stream is ended, whatever becomes of the others.
        let ends: Vec<_> = self.worker.into_iter().chain(programs).map(Recording::finish).collect();
        ends.into_iter().collect()
    }
}
