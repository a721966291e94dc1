//! Tensor streams: activations on disk as fast as the disk takes them.
//!
//! Producers hand tensors to a `TensorStream`; codec workers encode them, and one writer puts them into a file in the
//! order in which they came. The file is an Arrow IPC stream that other programs read too. `TensorFile`
//! reads it back, whole or cut off.

#![forbid(unsafe_code)]

mod container;
mod convert;
mod diff;
mod elements;
mod error;
mod file;
mod head;
mod options;
mod recover;
mod safetensors;
mod stats;
mod stored;
mod stream;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod testing;
mod verify;

pub use container::{BatchSpan, DroppedRow, PacketEntry};
pub use convert::{FromPackets, PacketCodec, PacketOptions, from_packets, reencode, sidecar_path, to_packets};
pub use diff::{DiffReport, TensorDiff, TensorKey, diff};
pub use dwell_codec::{Bound, Codec, DType};
pub use error::TensorsError;
pub use file::{FileEnd, StoredTensor, TensorFile, is_stream};
pub use head::{TensorHead, TokenMark};
pub use options::{DirectIo, Pressure, StreamOptions};
pub use recover::{Recovered, recover};
pub use safetensors::export_safetensors;
pub use stats::{NameStats, StreamStats, stats};
pub use stored::{CodecLoss, Stored, WorstTensor};
pub use stream::{
    Elements, Handover, Resumed, Room, StreamError, StreamProgress, StreamSummary, TensorStream, earlier_path,
    put_back_earlier, tokens_path,
};
pub use verify::{Problem, VerifyReport, verify};
