//! Kinds of records: those of the kernel, and from 64 on those that `perf` adds.

pub const MMAP: u32 = 1;
pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const EXIT: u32 = 4;
pub const THROTTLE: u32 = 5;
pub const FORK: u32 = 7;
pub const SAMPLE: u32 = 9;
pub const MMAP2: u32 = 10;
pub const LOST_SAMPLES: u32 = 13;
pub const HEADER_ATTR: u32 = 64;
pub const HEADER_TRACING_DATA: u32 = 66;
pub const HEADER_BUILD_ID: u32 = 67;
pub const FINISHED_ROUND: u32 = 68;
pub const AUXTRACE: u32 = 71;
pub const EVENT_UPDATE: u32 = 78;
pub const HEADER_FEATURE: u32 = 80;
pub const COMPRESSED: u32 = 81;
pub const COMPRESSED2: u32 = 83;
