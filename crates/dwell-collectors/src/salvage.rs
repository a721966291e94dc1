//! What a killed observer left in rings, appended to the raw streams.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use dwell_store::{RunDir, StoreError};

use crate::raw_records::RawRecords;
use crate::recordings::program_stream;
use crate::ring_recording::{Recording, holds_records_from};
use crate::{CollectError, TENSOR_OPS_STREAM, rings};

/// Takes what rings still hold into the raw streams of a run whose observer was killed.
pub fn salvage(run: &RunDir) -> Result<(), CollectError> {
    for ring in rings::waiting(run) {
        empty_ring(&ring, &run.raw_stream(TENSOR_OPS_STREAM))?;
    }
    for ring in rings::waiting_of_programs(run) {
        empty_ring(&ring, &program_stream(&ring))?;
    }
    rings::remove_unfinished(run);
    Ok(())
}

/// Appends what a ring still holds to the stream.
fn empty_ring(ring: &Path, stream: &Path) -> Result<(), CollectError> {
    let mut records = RawRecords::open(stream)?;
    while records.next_batch().is_some() {}
    match holds_records_from(ring, records.next_sequence()) {
        // What it held is lost, and counted; what was written out of it before is not.
        Err(CollectError::Ring { .. }) => return Ok(rings::set_aside(ring)?),
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
