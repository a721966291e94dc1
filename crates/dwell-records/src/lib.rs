//! The records that cross from a recorded process to the observer.
//!
//! A process sends [`Frame`]s through its ring; each holds one record, of the kind that its header says:
//!
//! ```text
//! Hello ─ Graph ─ Step ─ Transferred ─ Step ─ … what the recorder in the process saw
//!         Engine ─ Engine ─ …                      what the engine told of itself, as JSON of `dwell_events::engine::EngineEvent`
//! ```
//!
//! A decode graph repeats token after token. Its shape is stored once, as a [`Graph`]; each computation of it is a
//! [`Step`] with only what changes: row indices, visible cells, chosen experts, times. What is done with tensors between
//! graphs is a [`Transferred`].
//!
//! Payloads are little-endian and described by the types here. If one changes, [`WIRE_VERSION`] moves with it: raw
//! streams are kept for as long as runs are.
//!
//! The crate is pure: it maps no memory, reads no clock, opens no file. It has no dependencies, because the recorder
//! runs inside other people's programs.

#![forbid(unsafe_code)]

mod encode;
mod error;
mod frame;
mod graph;
mod hello;
pub mod names;
mod step;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transfer;
mod weight;

use std::ops::RangeInclusive;

pub use error::DecodeError;
pub use frame::{FRAME_HEADER_BYTES, Frame, Kind, frame_header, split_frame};
pub use graph::{Buffer, Capture, CaptureForm, Graph, NONE, TensorShape, Unit, ValueType};
pub use hello::{Fork, Hello, Refusal, Resolution};
pub use step::{IndexRuns, Step, StepParts, VisibleCells, WorkBuffer};
pub use transfer::{Transfer, Transferred};
pub use weight::{Placement, WeightPlaced};

/// Version of the payloads, sent in [`Hello`]. From version 2 on a recorder tells of [`Transferred`] bytes, from version 3 on
/// of the [`WorkBuffer`]s of a step.
pub const WIRE_VERSION: u16 = 3;

/// Versions that can be read.
pub const WIRE_VERSIONS: RangeInclusive<u16> = 1..=WIRE_VERSION;

/// Environment variable that turns the recording of graphs on in the worker; events are reported without it too.
pub const TRACED_VARIABLE: &str = "DWELL_TRACED";

/// Environment variable with the [`Resolution`]: `step`, `layer` or `op`.
pub const RESOLUTION_VARIABLE: &str = "DWELL_TIME_RESOLUTION";
