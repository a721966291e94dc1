//! Bits of `sample_type`: which fields a sample has. They stand in a sample in the order of
//! [`sample.rs`](super::sample), not in the order of the bits.

pub const IP: u64 = 1 << 0;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const ADDR: u64 = 1 << 3;
pub const READ: u64 = 1 << 4;
pub const CALLCHAIN: u64 = 1 << 5;
pub const ID: u64 = 1 << 6;
pub const CPU: u64 = 1 << 7;
pub const PERIOD: u64 = 1 << 8;
pub const STREAM_ID: u64 = 1 << 9;
pub const RAW: u64 = 1 << 10;
pub const BRANCH_STACK: u64 = 1 << 11;
pub const REGS_USER: u64 = 1 << 12;
pub const STACK_USER: u64 = 1 << 13;
pub const WEIGHT: u64 = 1 << 14;
pub const DATA_SRC: u64 = 1 << 15;
pub const IDENTIFIER: u64 = 1 << 16;
pub const TRANSACTION: u64 = 1 << 17;
pub const REGS_INTR: u64 = 1 << 18;
pub const PHYS_ADDR: u64 = 1 << 19;
pub const WEIGHT_STRUCT: u64 = 1 << 24;

/// Fields that records other than samples end with, if `sample_id_all` is set.
pub const TRAILER: u64 = TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER;
