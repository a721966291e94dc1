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
//! A decode graph repeats token after token. Its shape is stored once, as a [`wire::Graph`]; each computation
//! of it is a [`wire::Step`] with only what changes: row indices, visible cells, chosen experts, times. Which
//! bytes that means is worked out later, elsewhere, by the `dwell-label` crate.
//!
//! Records travel through a file-backed ring of fixed size ([`ring`]). It blocks when it is full; nothing is
//! dropped. What the process wrote survives its death, because the file does.
//!
//! The crate depends on libc alone: it runs inside other people's programs.

pub mod abi;
mod capture;
mod clock;
mod encode;
mod fingerprint;
pub mod names;
mod plan;
mod recorder;
pub mod ring;
mod session;
pub mod wire;

pub use clock::monotonic_ns;
pub use recorder::{Recorder, RecorderOptions, Resolution};
pub use session::after_node;

/// Environment variable with the folder in which a recorded process makes its ring.
pub const RING_DIR_VARIABLE: &str = "DWELL_RING_DIR";

/// Environment variable with the process id of the observer, without which blocking would be for ever.
pub const OBSERVER_PID_VARIABLE: &str = "DWELL_OBSERVER_PID";

/// Environment variable that turns the recording of graphs off in the embedded worker; events are still reported.
pub const UNTRACED_VARIABLE: &str = "DWELL_UNTRACED";

/// Environment variable with the time resolution: `step`, `layer` or `op`.
pub const RESOLUTION_VARIABLE: &str = "DWELL_TIME_RESOLUTION";
