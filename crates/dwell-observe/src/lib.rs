//! Observations of the kernel: the [lines](Line) that `dwell observe` writes, the [file](LineLog) they are appended to, and
//! what they say: [percentiles](Distribution) of histograms, series over time, and which of them goes with slow tokens.
//!
//! Nothing here asks the kernel; that is dwell-kernel.

#![forbid(unsafe_code)]

mod correlation;
mod error;
mod histogram;
mod line;
mod log;
mod reading;
mod report;
mod slow_tokens;

pub use correlation::Correlation;
pub use error::ObserveError;
pub use histogram::{Bucket, Distribution, Percentile, buckets_of, slot_bounds_us};
pub use line::{
    CallUse, DeviceInflight, DeviceLatency, DiskCounts, Line, Lost, OperationLatency, PressureLines, PressureValues,
    ProcessUse, RunQueue, Source, SourceKind, TcpUse,
};
pub use log::{LineLog, LogOptions};
pub use reading::{LinesRead, read_files, read_lines};
pub use report::{DeviceInterval, DeviceReport, ObservationReport, observation_report};
pub use slow_tokens::{LagReport, SignalReport, SlowTokens, TokenTime, signal_values};
