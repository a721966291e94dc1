//! What follows the last batch: the end-of-stream marker, the index, and a trailer that finds it.
//!
//! ```text
//! ff ff ff ff 00 00 00 00 │ index, zstd │ zeros │ crc32c u32 │ version u32 │ index and zeros, bytes u64 │ magic, 8 bytes
//! ```
//!
//! The checksum covers everything here but itself.

use std::io::Read;

use dwell_files::arrow_framing::END_OF_STREAM;

use super::index::Index;
use super::index_bytes::{index_from_bytes, index_to_bytes};
use super::{CHECKSUM_BYTES, PAGE_BYTES, padding};

/// What a finished file ends with.
const MAGIC: [u8; 8] = *b"DWELLTSX";
/// Version of the index that is written.
const INDEX_VERSION: u32 = 2;
/// The version before, whose figures are without cosines.
const INDEX_VERSION_ONE: u32 = 1;
/// Bytes after the index: checksum, version, length, magic.
const TRAILER_BYTES: usize = 24;

/// The end of a file with this index, padded to pages.
pub(crate) fn sealed_footer(index: &Index) -> Vec<u8> {
    let plain = index_to_bytes(index);
    // It does not fail on bytes in memory. An index that is not there is one that readers do without.
    let packed = zstd::bulk::compress(&plain, 1).unwrap_or_default();
    let mut bytes = Vec::with_capacity(packed.len() + 2 * PAGE_BYTES);
    bytes.extend_from_slice(&END_OF_STREAM);
    bytes.extend_from_slice(&packed);
    bytes.resize(bytes.len() + padding(bytes.len() + TRAILER_BYTES, PAGE_BYTES), 0);
    let index_bytes = (bytes.len() - END_OF_STREAM.len()) as u64;
    let mut rest = Vec::with_capacity(TRAILER_BYTES - CHECKSUM_BYTES);
    rest.extend_from_slice(&INDEX_VERSION.to_le_bytes());
    rest.extend_from_slice(&index_bytes.to_le_bytes());
    rest.extend_from_slice(&MAGIC);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &rest);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&rest);
    bytes
}

/// Reads the index of a file through `read` (offset, length); `None` if there is none, or not a whole one.
pub(crate) fn read_footer(
    file_bytes: u64,
    read: impl Fn(u64, usize) -> std::io::Result<Vec<u8>>,
) -> std::io::Result<Option<Index>> {
    let Some(trailer_offset) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let trailer = read(trailer_offset, TRAILER_BYTES)?;
    let Some((length, version)) = marked_length(&trailer, trailer_offset) else { return Ok(None) };
    let offset = trailer_offset - length;
    let bytes = read(offset, length as usize)?;
    Ok(checked_index(&bytes, &trailer, offset, version))
}

/// Bytes from the end-of-stream marker to the trailer, if they can be there, and the version of the index.
fn marked_length(trailer: &[u8], trailer_offset: u64) -> Option<(u64, u32)> {
    let (rest, magic) = trailer.split_last_chunk::<8>()?;
    let (rest, index_bytes) = rest.split_last_chunk::<8>()?;
    let (_, version) = rest.split_last_chunk::<4>()?;
    let version = u32::from_le_bytes(*version);
    let is_known = *magic == MAGIC && [INDEX_VERSION_ONE, INDEX_VERSION].contains(&version);
    let length = u64::from_le_bytes(*index_bytes).checked_add(END_OF_STREAM.len() as u64)?;
    (is_known && length <= trailer_offset && usize::try_from(length).is_ok()).then_some((length, version))
}

fn checked_index(bytes: &[u8], trailer: &[u8], offset: u64, version: u32) -> Option<Index> {
    let (checksum, rest) = trailer.split_first_chunk::<CHECKSUM_BYTES>()?;
    let found = crc32c::crc32c_append(crc32c::crc32c(bytes), rest);
    if found.to_le_bytes() != *checksum {
        return None;
    }
    let packed = bytes.strip_prefix(&END_OF_STREAM)?;
    let mut plain = Vec::new();
    // What is indexed takes more room in the batches than in the index.
    zstd::Decoder::with_buffer(packed).ok()?.single_frame().take(offset).read_to_end(&mut plain).ok()?;
    index_from_bytes(&plain, offset, version == INDEX_VERSION)
}
