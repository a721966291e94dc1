//! From producers to the file.
//!
//! ```text
//! producers ─▶ intake: numbers ─▶ dwell-encode ─▶ dwell-writer: order, batches ─▶ dwell-io ─▶ file
//!                  └──▶ spill file ─▶ dwell-unspill ──┘
//! ```

mod batch;
mod buffers;
pub(crate) mod checkpoint;
mod drops;
mod earlier;
mod error;
mod failure;
mod grant;
mod intake;
mod layout;
mod memory;
mod parcel;
mod pipe;
mod progress;
mod queues;
mod resume;
mod sink;
mod spill;
mod submit;
mod sync;
mod tensor_stream;
#[cfg(test)]
mod tests;
mod threads;
pub(crate) mod tokens_file;
mod worker;
mod writer;

pub use earlier::{earlier_path, put_back_earlier};
pub use error::StreamError;
pub use progress::{Resumed, StreamProgress, StreamSummary};
pub use submit::{Elements, Handover, Room};
pub use tensor_stream::TensorStream;
pub use tokens_file::tokens_path;
