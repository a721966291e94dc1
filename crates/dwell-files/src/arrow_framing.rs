//! How the messages of an Arrow IPC stream are told apart.
//!
//! ```text
//! ff ff ff ff │ metadata length, i32 │ metadata (flatbuffer), padded │ body, padded
//! ```
//!
//! A metadata length of 0 ends the stream.

/// The four bytes that every message begins with.
pub const CONTINUATION: [u8; 4] = [0xff; 4];
/// The eight bytes that a finished stream ends with.
pub const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Bytes before the metadata.
pub const PREFIX_BYTES: u64 = 8;
