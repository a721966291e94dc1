//! The `process` collector: memory, CPU, faults and I/O of running processes, from procfs.
//!
//! What it sees: what the kernel counts for a whole process, at the moments when it is asked, for single processes and
//! for trees of them. Works on any Linux, without privilege for processes of the same user.
//!
//! What makes its numbers wrong or missing:
//! - Between two samples nothing is seen; a peak shorter than the interval is missed.
//! - Resident sizes come from per-CPU counters. Kernels before 6.16 report them without summing up, off by as
//!   much as 32 pages for each CPU and kind.
//! - `pss`, `uss` need a walk over the process's page tables under its memory-map lock (17 to 30 ms for each GiB
//!   measured), so they are taken rarely, see [`RollupPolicy`]; the rows in between do not have them. `swap` does
//!   not count swapped-out shared memory.
//! - CPU time is that of the threads' run queues, which lags by up to one scheduler tick for a running thread.
//!   Whatever threads come and go, the total is within 20 ms of the kernel's own.
//! - `read`, `write` are bytes that went to storage. Processes of other users do not show them, nor `pss`, `uss`.
//! - A descendant is found in the first sample after it began; one that lived shorter is never seen.
//! - The resident memory of a tree counts pages that its processes share once for each; `pss` counts them once.
//! - A program that replaces itself (`exec`) is the same process with its counters going on, under its new name.
//! - Of a process that did not run since the sample before, and whose sizes are the same, the rest is not read again
//!   for a second: swap, and what others did to it, may be that old.
//!
//! What the sampling thread costs, measured with `benches/cost.rs`, which samples itself: 17 µs of CPU for one sample of a
//! process with 4 threads, 28 µs with 16; 0.1 to 0.3 % of one core every 100 ms and 1.0 to 1.4 % every 5 ms, walks and
//! wake-ups included. The whole of `dwell watch` takes 0.46 % every 100 ms for a process with 1 GiB resident
//! (`benches/runs`).

#![forbid(unsafe_code)]

mod cpu_use;
mod error;
mod find;
mod gpu_support;
mod group;
mod paced_thread;
mod relation;
mod rollup;
mod sampler;
mod sampler_thread;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos/mod.rs"]
mod system;
mod total;
mod tree;

pub use error::ProcessError;
pub use find::{FoundProcess, find_processes, process_name};
pub use gpu_support::GpuSupport;
pub use group::ProcessName;
pub use paced_thread::{PacedThread, Rhythm, wait_until};
pub use rollup::RollupPolicy;
pub use sampler::Sampler;
pub use sampler_thread::{Pace, SamplerHandle, SamplerSummary, SamplerThread};
pub use system::{gpu_support, own_peak_rss_bytes};
pub use total::total_label;
pub use tree::{ProcessLine, process_ids, process_line, process_tree};
