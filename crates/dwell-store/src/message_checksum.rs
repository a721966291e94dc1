//! A checksum for each message of a raw stream.
//!
//! It lies behind the flatbuffer of a message, in what Arrow takes for padding, so that any Arrow library reads the stream:
//!
//! ```text
//! metadata (flatbuffer) │ CRC-32C of metadata and body, u32 │ "DWC1" │ zeros up to the alignment
//! ```
//!
//! Streams of version 0.1 have none. A stream has checksums if its first message has one: from then on a message
//! without one is damaged.

use arrow_ipc::writer::EncodedData;

/// What stands behind a checksum. Its last byte is not zero, so that padding can be told from it.
const MARK: [u8; 4] = *b"DWC1";
const CHECKSUM_BYTES: usize = size_of::<u32>();

/// Adds the checksum to a message that is about to be written.
pub(crate) fn add_checksum(message: &mut EncodedData) {
    let checksum = checksum_of(&message.ipc_message, &message.arrow_data);
    message.ipc_message.extend_from_slice(&checksum.to_le_bytes());
    message.ipc_message.extend_from_slice(&MARK);
}

/// Whether a message has a checksum.
pub(crate) fn has_checksum(metadata: &[u8]) -> bool {
    split(metadata).is_some()
}

/// Why a message is not the one that was written, as far as its checksum tells.
pub(crate) fn check(metadata: &[u8], body: &[u8]) -> Result<(), String> {
    let (content, written) = split(metadata).ok_or("its checksum is missing")?;
    match checksum_of(content, body) {
        found if found == written => Ok(()),
        found => Err(format!("its checksum is {found:08x}, not {written:08x} as written")),
    }
}

/// The metadata that was summed up, and the sum.
fn split(metadata: &[u8]) -> Option<(&[u8], u32)> {
    let padding = metadata.iter().rev().take_while(|&&byte| byte == 0).count();
    let marked = metadata[..metadata.len() - padding].strip_suffix(&MARK)?;
    let (content, checksum) = marked.split_last_chunk::<CHECKSUM_BYTES>()?;
    Some((content, u32::from_le_bytes(*checksum)))
}

fn checksum_of(metadata: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(metadata), body)
}
