//! What the collectors of perf events share: events attached to processes, their records on the way into `raw/`, and back.
//!
//! ```text
//! events of every thread and processor ─▶ rings ─▶ a thread of its own ─▶ raw/<name>.arrows ─▶ dwell-decode, as imports
//! ```
//!
//! The records in `raw/` are those of a recording of `perf record -o -`, cut into batches: live recording and the import of perf's own
//! files meet in one decoder.

mod attaching;
mod programs;
mod reading;
mod recorded;
mod stream;
mod trial;
mod watch;

pub use programs::Programs;
pub use recorded::{PerfRecords, StreamBytes, recording_losses};
pub(crate) use trial::samples_of;
pub(crate) use watch::{PerfSetup, PerfWatch};

/// CLOCK_MONOTONIC.
const CLOCK: i32 = 1;
