//! Records what a ggml graph touches, from inside the process that computes it.
//!
//! The recorder is linked into the embedded worker and into the preload library for unmodified llama.cpp
//! programs; both call the same three functions around a graph:
//!
//! ```text
//! compute(graph):   begin_graph ──▶ the real computation ──▶ end_graph
//!                                      └─ after_node, on the same thread, after each executed node
//! ```
//!
//! and others when the processor's backend takes its work buffer, when tensors get their memory, when results are read and when buffers are cleared.
//!
//! What it saw becomes records (the `dwell-records` crate), which travel through a file-backed ring of fixed size (the
//! `dwell-ring` crate). Which bytes a record means is worked out later, elsewhere, by the `dwell-label` crate.
//!
//! The crate depends on libc alone, besides those two: it runs inside other people's programs.

pub mod abi;
mod capture;
mod fingerprint;
mod plan;
mod recorder;
mod session;
mod ticks;
mod transfers;

pub use recorder::{Recorder, RecorderOptions};
pub use session::{after_node, computes_with};
pub use transfers::OpenTransfer;
