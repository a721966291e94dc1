//! Memory that was granted; dropped, it goes back.

use std::sync::Arc;

use super::buffers::{Block, room_capacity};
use super::memory::Memory;

/// What was granted.
pub(super) struct Grant {
    pub(super) raw: RawBuffer,
    pub(super) payload: PayloadBuffer,
    pub(super) extra: Lease,
}

/// Bytes that are paid for until this is dropped.
pub(super) struct Lease {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Lease {
    pub(super) fn new(memory: &Arc<Memory>, bytes: u64) -> Self {
        Self { memory: memory.clone(), bytes }
    }

    /// Gives part of it back.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.release(bytes);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

/// A buffer for elements. It goes back to its shelf when it is dropped.
pub(super) struct RawBuffer {
    memory: Arc<Memory>,
    /// `None` where nothing was needed.
    block: Option<Block>,
    length: usize,
}

impl RawBuffer {
    pub(super) fn new(memory: &Arc<Memory>, block: Option<Block>) -> Self {
        Self { memory: memory.clone(), block, length: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.bytes()[..self.length])
    }

    /// Everything that is in it, to be changed in place.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.as_mut().map_or(&mut [], |block| &mut block.bytes_mut()[..self.length])
    }

    /// Makes it this long; what is in it is anything.
    pub(super) fn set_length(&mut self, length: usize) {
        self.length = length.min(self.block.as_ref().map_or(0, |block| block.bytes().len()));
    }

    /// Adds bytes for which there is room.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.set_length(start + bytes.len());
        self.bytes_mut()[start..].copy_from_slice(bytes);
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.memory.shelve_block(block);
        }
    }
}

/// A buffer for payloads. It goes back to its shelf when it is dropped.
pub(super) struct PayloadBuffer {
    memory: Arc<Memory>,
    /// What is paid for.
    capacity: usize,
    pub(super) bytes: Vec<u8>,
}

impl PayloadBuffer {
    pub(super) fn new(memory: &Arc<Memory>, capacity: usize, bytes: Vec<u8>) -> Self {
        Self { memory: memory.clone(), capacity, bytes }
    }
}

impl Drop for PayloadBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let capacity = self.capacity;
        if capacity > 0 && bytes.capacity() == room_capacity(capacity) {
            self.memory.shelve_payload(capacity, bytes);
        } else {
            // One that has grown, or could not be had as it should be, is not kept.
            drop(bytes);
            self.memory.release(capacity as u64);
        }
    }
}
