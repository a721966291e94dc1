//! What a killed observer left in rings, appended to the raw streams.

use std::fs;
use std::path::Path;

use dwell_store::{RunDir, StoreError};

use crate::record_stream::{FirstNew, StreamPaths};
use crate::ring_recording::{Recording, holds_new_records};
use crate::{ALL, CollectError, rings};

/// Takes what rings and collectors still hold into the raw streams of a run whose observer was killed.
pub fn salvage(run: &RunDir) -> Result<(), CollectError> {
    for ring in rings::waiting(run) {
        empty_ring(&ring, &StreamPaths::of_worker(run))?;
    }
    for collector in ALL {
        collector.salvage(run)?;
    }
    rings::remove_unfinished(run);
    Ok(())
}

/// Appends what a ring still holds to its streams.
pub(crate) fn empty_ring(ring: &Path, streams: &StreamPaths) -> Result<(), CollectError> {
    let first_new = FirstNew::after(streams)?;
    match holds_new_records(ring, &first_new) {
        // What it held is lost, and counted; what was written out of it before is not.
        Err(CollectError::Ring { .. }) => return Ok(rings::set_aside(ring)?),
        // The streams are left as they are: a torn end is then a loss, which continuing the stream would hide.
        Ok(false) => {
            return Ok(
                fs::remove_file(ring).map_err(|error| StoreError::from_io("removing an empty ring", ring, error))?
            );
        }
        outcome => outcome?,
    };
    let mut recording = Recording::resume(ring, streams, first_new)?;
    recording.drain(|_| {})?;
    Ok(recording.finish()?)
}
