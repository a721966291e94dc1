//! The rings of programs into which the recorder was loaded, each emptied into a raw stream of its own.

use std::path::PathBuf;

use dwell_metadata::CollectorEnd;
use dwell_records::Kind;
use dwell_store::StoreError;

use crate::record_stream::StreamPaths;
use crate::ring_recording::Recording;
use crate::{CollectError, rings};

/// The rings that programs make in a folder.
pub(super) struct ProgramRings {
    dir: PathBuf,
    programs: Vec<Program>,
}

struct Program {
    ring: PathBuf,
    recording: Recording,
}

impl ProgramRings {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, programs: Vec::new() }
    }

    /// Takes in what waits in all rings, those included that have appeared since the last look. Says whether anything
    /// was computed.
    pub(super) fn drain(&mut self) -> Result<bool, CollectError> {
        for ring in rings::in_dir(&self.dir) {
            if !self.programs.iter().any(|program| program.ring == ring) {
                let recording = Recording::begin(&ring, &StreamPaths::of_program(&ring))?;
                self.programs.push(Program { ring, recording });
            }
        }
        let mut has_computed = false;
        for program in &mut self.programs {
            program.recording.drain(|frame| has_computed |= frame.kind == Kind::Step as u16)?;
        }
        Ok(has_computed)
    }

    /// Writes what is left and ends all streams.
    pub(super) fn finish(self) -> Result<CollectorEnd, StoreError> {
        let blocked_ns = self.programs.iter().map(|program| program.recording.blocked_ns()).sum();
        // Every stream is ended, whatever becomes of the others.
        let ends: Vec<_> = self.programs.into_iter().map(|program| program.recording.finish()).collect();
        ends.into_iter().collect::<Result<(), _>>()?;
        Ok(CollectorEnd { blocked_ns, ..CollectorEnd::default() })
    }
}
