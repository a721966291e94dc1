//! The part of [ZMTP 3.0](https://rfc.zeromq.org/spec/23/), the protocol of ZeroMQ, that a subscriber needs.
//!
//! Libraries for it take memory for any length that a peer states, so one header of nine bytes ends the process. Here
//! memory grows with what has come, up to that of the largest batch.

mod connection;
mod decoder;

pub(crate) use connection::{Connection, Role};
pub use decoder::{Decoder, Fault, Incoming};

/// The first byte of a frame.
mod flags {
    /// Another frame of the message follows.
    pub(super) const MORE: u8 = 1;
    /// The length has eight bytes, not one.
    pub(super) const LONG: u8 = 2;
    /// The frame is a command.
    pub(super) const COMMAND: u8 = 4;
}
