//! Live recording: from a job and the collectors that watch it to the raw streams of a run.
//!
//! ```text
//! RunRequest ─▶ session: worker + collectors ─▶ raw/
//! ```
//!
//! Recording only appends to `raw/`; the tables are made from that by `dwell-build`.

#![forbid(unsafe_code)]

mod capture;
mod error;
mod page_cache;
mod patience;
mod run_record;
mod session;
mod watch;
mod worker_process;

pub use capture::{CaptureListener, CaptureReport, capture};
pub use error::RecordError;
pub use session::{NoListener, RecordListener, record_run};
