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
        Err(StoreError::File(FileError::NotFound { .. }) | StoreError::TruncatedHeader { found_bytes: 0, .. }) => {
            return Ok(0);
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::fs;

    use dwell_events::schema::memory::{self, MemoryRow};
    use dwell_store::{RawCompression, RawWriter};

    use super::*;

    #[test]
    fn a_stream_whose_header_is_damaged_is_counted_and_one_without_a_byte_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("process.arrows");
        let mut writer = RawWriter::create(&path, memory::schema(), RawCompression::None).unwrap();
        let header_bytes = writer.stream_bytes() as usize;
        writer.write(&memory::batch(&[MemoryRow::default()])).unwrap();
        writer.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        let counted = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let mut batches = 0;
            let damaged = each_batch(&path, |_| {
                batches += 1;
                Ok(())
            });
            (damaged.unwrap(), batches)
        };
        assert_eq!(counted(&whole), (0, 1));
        assert_eq!(counted(&[]), (0, 0));
        for at in (8..header_bytes - 64).step_by(13) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(counted(&damaged), (1, 0), "byte {at}");
        }
    }
}
