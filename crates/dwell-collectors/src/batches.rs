//! The batches of a raw stream, however it ended.

use std::path::Path;

use arrow_array::RecordBatch;
use dwell_files::FileError;
use dwell_store::{RawReader, StoreError, StreamEnd};

/// Hands every batch that can be read to `take`. Returns how many are damaged or cut off; a stream that cannot be read at
/// all counts as one, a stream that was never begun as none.
pub(crate) fn each_batch(
    stream: &Path,
    mut take: impl FnMut(RecordBatch) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut reader = match RawReader::open(stream) {
        Ok(reader) => reader,
        Err(StoreError::File(FileError::NotFound { .. }) | StoreError::TruncatedHeader { .. }) => return Ok(0),
        Err(_) => return Ok(1),
    };
    let mut damaged = 0;
    for batch in reader.by_ref() {
        match batch {
            Ok(batch) => take(batch)?,
            Err(_) => damaged += 1,
        }
    }
    let is_torn = matches!(reader.end(), Some(StreamEnd::Truncated { bytes_dropped, .. }) if bytes_dropped > 0);
    Ok(damaged + u64::from(is_torn))
}
