//! Tensors as fewer bytes.
//!
//! A [`Codec`] is chosen by its text (`float`, `zstd:3`, `bounded:range:1e-3`). An [`Encoder`] turns the elements of
//! one tensor into a payload and says which codec it used in the end; a [`Decoder`] turns it back. Nothing here opens a
//! file or starts a thread.

#![forbid(unsafe_code)]

mod bounded;
mod codec;
mod decoder;
mod dtype;
mod encoder;
mod float;
mod huffman;
mod plane;
mod references;

pub use codec::{Bound, Codec, UnknownCodec};
pub use decoder::{DecodeError, Decoder};
pub use dtype::{DType, UnknownDType};
pub use encoder::{Encoded, Encoder, max_payload_bytes};
