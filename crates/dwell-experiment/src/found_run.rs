//! What is there of a planned run, after whatever interrupted the last attempt.

use std::fs;
use std::path::Path;

use dwell_metadata::{RecordingEnd, RunMetadata, UntracedRun};
use dwell_store::{RunDir, RunState};

use crate::ExperimentError;

/// What is there of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundRun {
    /// No folder.
    Nothing,
    /// Tables and manifest.
    Finished {
        /// Whether something that should have been recorded is missing.
        is_partial: bool,
    },
    /// All records; the tables can be made from them.
    Recorded,
    /// Part of the records: an attempt that was cut off.
    Torn,
}

impl FoundRun {
    /// Looks at the folder of a run.
    pub(crate) fn at(path: &Path) -> Self {
        if fs::symlink_metadata(path).is_err() {
            return FoundRun::Nothing;
        }
        // A folder without a marker was made and not begun; one that cannot be read is of no use either.
        let Ok(run) = RunDir::open(path) else { return FoundRun::Torn };
        let Ok(Some(marker)) = run.marker() else { return FoundRun::Torn };
        if marker.state.is_final() && run.manifest_json().is_file() {
            let is_partial = marker.state == RunState::Partial;
            // Recovery makes tables of what a killed run had recorded; the run itself is still to be done.
            let is_cut_off = is_partial && !recorded_to_the_end(&run);
            return if is_cut_off { FoundRun::Torn } else { FoundRun::Finished { is_partial } };
        }
        let is_whole = marker.state != RunState::Recording || recorded_to_the_end(&run);
        if is_whole { FoundRun::Recorded } else { FoundRun::Torn }
    }
}

fn recorded_to_the_end(run: &RunDir) -> bool {
    let facts = fs::read(run.raw().join(RecordingEnd::FILE_NAME)).ok();
    let facts: Option<RecordingEnd> = facts.and_then(|text| serde_json::from_slice(&text).ok());
    facts.is_some_and(|facts| facts.worker_failure.is_none() && !facts.is_interrupted)
}

/// The speed of a run, from its metadata.
pub(crate) fn speed_of(path: &Path, run_id: &str) -> Result<UntracedRun, ExperimentError> {
    let run = RunDir::open(path)?;
    let text = run.read_metadata_json()?;
    let metadata = text.map(|text| RunMetadata::parse(&text, &run.metadata_json())).transpose()?;
    let generation = metadata.and_then(|metadata| metadata.generation);
    Ok(UntracedRun {
        run_id: run_id.to_owned(),
        prompt_tokens_per_s: generation.and_then(|generation| generation.prompt_tokens_per_s),
        decode_tokens_per_s: generation.and_then(|generation| generation.decode_tokens_per_s),
    })
}
