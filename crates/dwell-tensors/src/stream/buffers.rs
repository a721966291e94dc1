//! Buffers, and the shelves on which they wait for the next tensor of their size.

use std::collections::BTreeMap;
use std::io;

use memmap2::{Advice, MmapMut};

/// From here on a buffer is a mapping of its own: large pages make its first use cheaper, and giving it up gives it
/// back to the system at once.
const LEAST_MAPPED_BYTES: usize = 256 << 10;

/// Memory of a fixed size, in which every byte has a value.
pub(super) enum Block {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

impl Block {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        if bytes < LEAST_MAPPED_BYTES {
            return Ok(Self::Heap(vec![0; bytes]));
        }
        let mapped = MmapMut::map_anon(bytes)?;
        // Refused where there are no large pages; small ones do as well.
        let _ = mapped.advise(Advice::HugePage);
        Ok(Self::Mapped(mapped))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

/// The GNU allocator maps what is larger than this on its own, and gives it back to the system when it is freed.
/// Anything smaller may stay with the process.
const ALWAYS_MAPPED_BYTES: usize = 33 << 20;

/// Capacity of a vector for payloads of so many bytes. What is not used of it is never touched, so it costs addresses and
/// no memory.
pub(super) fn room_capacity(bytes: usize) -> usize {
    if bytes < LEAST_MAPPED_BYTES { bytes } else { bytes.max(ALWAYS_MAPPED_BYTES) }
}

/// An empty vector for payloads of so many bytes; a plain one where addresses are scarce.
pub(super) fn payload_room(bytes: usize) -> io::Result<Vec<u8>> {
    let mut room = Vec::new();
    let reserved = room.try_reserve_exact(room_capacity(bytes)).or_else(|_| room.try_reserve_exact(bytes));
    reserved.map_err(|_| io::ErrorKind::OutOfMemory)?;
    Ok(room)
}

/// Idle buffers by capacity.
pub(super) struct Shelves<T> {
    idle: BTreeMap<usize, Vec<T>>,
}

impl<T> Default for Shelves<T> {
    fn default() -> Self {
        Self { idle: BTreeMap::new() }
    }
}

impl<T> Shelves<T> {
    pub(super) fn put(&mut self, capacity: usize, buffer: T) {
        self.idle.entry(capacity).or_default().push(buffer);
    }

    pub(super) fn take(&mut self, capacity: usize) -> Option<T> {
        self.idle.get_mut(&capacity)?.pop()
    }

    /// Frees one of the largest; its capacity, or `None` if there is none.
    pub(super) fn free_one(&mut self) -> Option<usize> {
        loop {
            let mut shelf = self.idle.last_entry()?;
            if shelf.get_mut().pop().is_some() {
                return Some(*shelf.key());
            }
            shelf.remove();
        }
    }
}

/// Capacity of the buffers that hold so much: few enough sizes that buffers find a next user.
pub(super) fn capacity_for(bytes: usize) -> usize {
    const LEAST_BYTES: usize = 4096;
    const LARGE_BYTES: usize = 16 << 20;
    const LARGE_STEP_BYTES: usize = 1 << 20;
    match bytes {
        0 => 0,
        _ if bytes <= LEAST_BYTES => LEAST_BYTES,
        _ if bytes > LARGE_BYTES => bytes.next_multiple_of(LARGE_STEP_BYTES),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_waste_at_most_a_quarter_and_a_page() {
        assert_eq!((capacity_for(0), capacity_for(1), capacity_for(4097)), (0, 4096, 5120));
        for bytes in (1..200).map(|step: usize| step * step * step * 37) {
            let capacity = capacity_for(bytes);
            assert!(capacity >= bytes && capacity <= bytes + bytes / 4 + 4096, "{bytes}: {capacity}");
        }
    }
}
