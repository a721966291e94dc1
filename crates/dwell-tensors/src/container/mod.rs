//! The file of a tensor stream: an Arrow IPC stream whose messages are padded to pages, with an index after its end.
//!
//! ```text
//! schema message │ batch │ batch │ … │ end-of-stream marker, index, trailer
//! ```
//!
//! Every part is a multiple of [`PAGE_BYTES`] long. A batch is its small columns, then the payloads in the order of
//! the rows, then zeros; the payloads are therefore written from where the codec left them. A checksum in the
//! padding of each message's metadata covers the metadata and the small columns, `crc32c` of each row its payload.

mod batch;
mod columns;
mod footer;
mod frame;
mod index;
mod index_bytes;
mod row;
mod scan;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
mod writer;

pub(crate) use footer::read_footer;
pub(crate) use frame::{BatchFrame, batch_frame};
pub use index::{BatchSpan, DroppedRow, PacketEntry};
pub(crate) use index::{Index, IndexBuilder};
pub(crate) use row::Row;
pub(crate) use scan::{ScanEnd, read_at, scan};
pub(crate) use schema::{
    CONTAINER_VERSIONS, ContainerVersion, MAX_METADATA_BYTES, VERSION_KEY, metadata_size_bytes, read_schema,
    schema_message,
};
pub(crate) use writer::RowWriter;

/// What every part of the file is a multiple of, so that it can be written past the page cache.
pub(crate) const PAGE_BYTES: usize = 4096;
/// The most that a name or the text of a token may take; rows of a batch share 32-bit offsets.
pub(crate) const MAX_TEXT_BYTES: usize = u16::MAX as usize;
/// The most dimensions that a tensor may have.
pub(crate) const MAX_DIMENSIONS: usize = 64;
/// The most rows that a batch may have; with [`MAX_TEXT_BYTES`], offsets stay below 2³¹.
pub(crate) const MAX_BATCH_ROWS: usize = 1 << 15;

/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// How many zeros bring a length to a multiple of `unit`.
pub(crate) fn padding(length: usize, unit: usize) -> usize {
    length.wrapping_neg() % unit
}

/// Puts the checksum of everything before it into the last bytes.
fn seal(bytes: &mut [u8], more: &[u8]) {
    if let Some((covered, checksum)) = bytes.split_last_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = crc32c::crc32c_append(crc32c::crc32c(covered), more).to_le_bytes();
    }
}

/// Whether [`seal`] left these bytes so.
fn is_sealed(bytes: &[u8], more: &[u8]) -> bool {
    bytes.split_last_chunk::<CHECKSUM_BYTES>().is_some_and(|(covered, checksum)| {
        crc32c::crc32c_append(crc32c::crc32c(covered), more).to_le_bytes() == *checksum
    })
}
