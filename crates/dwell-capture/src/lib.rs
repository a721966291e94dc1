//! Which tensors of a model are captured, which part of them, and how they get into a stream.
//!
//! ```text
//! engine: graphs ─▶ Selection ─▶ Capturer ─▶ TensorStream
//!         tensors ──────────────▶    │
//!         tokens ───────────────▶    └──▶ CaptureEvent ─▶ whoever asked for it
//! ```
//!
//! Knows no engine: one tells of its tensors as [`GraphNode`](dwell_events::GraphNode)s and gives their memory when they are computed.

#![forbid(unsafe_code)]

mod capturer;
mod error;
mod event;
mod gather;
mod glob;
mod group;
mod job;
mod layers;
mod listed;
mod node;
mod selection;
mod slice;

pub use capturer::{Capturer, GenerationEnd};
pub use error::CaptureError;
pub use event::{CaptureCounts, CaptureEvent};
pub use gather::Strided;
pub use glob::{NameGlob, UnreadableGlob};
pub use group::Group;
pub use job::{CaptureJob, CaptureOutput, model_fingerprint};
pub use layers::{Layers, UnreadableLayers};
pub use listed::{Length, ListedTensor, listed};
pub use node::{NameParts, Names};
pub use selection::{CapturedPhase, Selection, shape_text};
pub use slice::{Slice, SlicePart, Taken, UnreadableSlice};
