//! Entries of the maps, laid out as `bpf/observe.bpf.c` lays them out.
#![allow(unsafe_code, reason = "a promise that these structures are plain bytes")]

use aya::Pod;

pub(crate) const SLOTS: usize = 32;
pub(crate) const NAME_BYTES: usize = 16;
pub(crate) const LOSSES: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IssuedEntry {
    pub(crate) request: u64,
    pub(crate) at_ns: u64,
    pub(crate) kind: u64,
}

/// A kind of requests, as `kind` has it in its lower 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceKey {
    pub(crate) device: u32,
    pub(crate) operation: u32,
}

impl DeviceKey {
    pub(crate) fn of_kind(kind: u64) -> Self {
        Self { device: kind as u32, operation: u32::from((kind >> 32) as u8) }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceEntry {
    pub(crate) kind: u64,
    pub(crate) inflight: i64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) requeues: u64,
    pub(crate) latency_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) slots: [u64; SLOTS],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallEntry {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) slots: [u64; SLOTS],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunQueueEntry {
    pub(crate) count: u64,
    pub(crate) wait_ns: u64,
    pub(crate) wait_max_ns: u64,
    pub(crate) slots: [u64; SLOTS],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadEntry {
    pub(crate) off_since_ns: u64,
    pub(crate) off_ns: u64,
    pub(crate) ready_since_ns: u64,
    pub(crate) ready_ns: u64,
    pub(crate) switches: u64,
    pub(crate) faults: u64,
    pub(crate) write_faults: u64,
    pub(crate) call_began_ns: u64,
    pub(crate) calls: u64,
    pub(crate) call_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) tcp_sent_bytes: u64,
    pub(crate) tcp_received_bytes: u64,
    pub(crate) tcp_retransmits: u64,
    pub(crate) start_ns: u64,
    pub(crate) computed_ns: u64,
    pub(crate) call_place: u32,
    pub(crate) process: u32,
    pub(crate) parent: u32,
    pub(crate) has_exited: u32,
    pub(crate) name: [u8; NAME_BYTES],
}

// SAFETY: whole numbers only, of fixed layout, with no bytes between them; any bytes are valid.
unsafe impl Pod for IssuedEntry {}
// SAFETY: as above.
unsafe impl Pod for DeviceEntry {}
// SAFETY: as above.
unsafe impl Pod for CallEntry {}
// SAFETY: as above.
unsafe impl Pod for RunQueueEntry {}
// SAFETY: as above: 18 numbers of 8 bytes, 4 of 4 bytes, 16 bytes.
unsafe impl Pod for ThreadEntry {}
