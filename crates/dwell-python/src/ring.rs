//! Memory that a device copies into, lent in the order in which it comes back.
//!
//! Python owns the memory (pinned, where a GPU is to write it) and asks for ranges of it. A range is given back when
//! its elements have been encoded, so whole passes of a model are in flight without one allocation.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use dwell_tensors::Elements;
use pyo3::prelude::*;

/// Ranges begin at multiples of this, so that every type of element may lie in them.
const ALIGNMENT_BYTES: usize = 256;
/// How long a wait lasts before Python may see a Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// A range that is lent.
struct Range {
    begin: usize,
    is_free: bool,
}

#[derive(Default)]
struct Lent {
    /// In the order in which they were lent; the free ones at the front are taken off.
    ranges: VecDeque<Range>,
    /// The ticket of the first of `ranges`.
    first_ticket: u64,
    /// Where the next range begins.
    next: usize,
}

impl Lent {
    /// A range of `bytes`, as its ticket and its beginning.
    fn take(&mut self, bytes: usize, capacity: usize) -> Option<(u64, usize)> {
        let oldest = self.ranges.front().map(|range| range.begin);
        let begin = match oldest {
            None => (bytes <= capacity).then_some(0),
            // The end may never meet the oldest: full and empty would look the same.
            Some(oldest) if self.next > oldest => {
                if bytes <= capacity - self.next {
                    Some(self.next)
                } else {
                    (bytes < oldest).then_some(0)
                }
            }
            Some(oldest) => (bytes < oldest - self.next).then_some(self.next),
        }?;
        self.next = begin + bytes;
        self.ranges.push_back(Range { begin, is_free: false });
        Some((self.first_ticket + self.ranges.len() as u64 - 1, begin))
    }

    fn give_back(&mut self, ticket: u64) {
        let place = ticket.checked_sub(self.first_ticket).and_then(|place| usize::try_from(place).ok());
        if let Some(range) = place.and_then(|place| self.ranges.get_mut(place)) {
            range.is_free = true;
        }
        while self.ranges.front().is_some_and(|range| range.is_free) {
            self.ranges.pop_front();
            self.first_ticket += 1;
        }
    }
}

/// The memory and who has what of it.
pub(crate) struct Memory {
    /// The Python object whose memory it is; it lives until the last range is back.
    _owner: Py<PyAny>,
    address: usize,
    capacity: usize,
    lent: Mutex<Lent>,
    came_back: Condvar,
}

impl Memory {
    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize, patience: Duration) -> Option<(u64, usize)> {
        let deadline = Instant::now() + patience;
        let mut lent = self.lent();
        loop {
            if let Some(range) = lent.take(bytes, self.capacity) {
                return Some(range);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            lent = self.came_back.wait_timeout(lent, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give_back(&self, ticket: u64) {
        self.lent().give_back(ticket);
        self.came_back.notify_all();
    }
}

/// Memory of a Python object, lent piece by piece.
#[pyclass(frozen)]
pub(crate) struct Ring {
    address: usize,
    capacity: usize,
    /// `None` once nothing is lent any more.
    memory: RwLock<Option<Arc<Memory>>>,
}

#[pymethods]
impl Ring {
    /// `owner` keeps the `bytes` bytes at `address` alive.
    #[new]
    fn new(owner: Py<PyAny>, address: usize, bytes: usize) -> Self {
        let memory = Memory {
            _owner: owner,
            address,
            capacity: bytes,
            lent: Mutex::new(Lent::default()),
            came_back: Condvar::new(),
        };
        Self { address, capacity: bytes, memory: RwLock::new(Some(Arc::new(memory))) }
    }
}

impl Ring {
    /// First byte of the memory.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Lends nothing any more. The memory is given back with the last range, whoever still holds the ring.
    pub(crate) fn release(&self) {
        self.memory.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether a range of this size can be lent at some time to come.
    pub(crate) fn can_hold(&self, bytes: usize) -> bool {
        range_bytes(bytes) <= self.capacity && self.memory().is_some()
    }

    fn memory(&self) -> RwLockReadGuard<'_, Option<Arc<Memory>>> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for the elements of a tensor, if there is some now.
    pub(crate) fn room(&self, bytes: usize) -> Option<LentElements> {
        self.room_within(bytes, Duration::ZERO)
    }

    /// The same, waiting a little.
    pub(crate) fn room_soon(&self, bytes: usize) -> Option<LentElements> {
        self.room_within(bytes, SIGNAL_CHECK)
    }

    fn room_within(&self, bytes: usize, patience: Duration) -> Option<LentElements> {
        let memory = Arc::clone(self.memory().as_ref()?);
        let (ticket, offset) = memory.take(range_bytes(bytes), patience)?;
        Some(LentElements { memory, ticket, offset, bytes })
    }
}

/// What a tensor of this size takes of a ring.
fn range_bytes(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGNMENT_BYTES)
}

/// The elements of one tensor in lent memory; the range is given back with them.
pub(crate) struct LentElements {
    memory: Arc<Memory>,
    ticket: u64,
    offset: usize,
    bytes: usize,
}

impl LentElements {
    /// Where the range begins.
    pub(crate) fn address(&self) -> usize {
        self.memory.address + self.offset
    }

    /// Bytes of the elements.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Copies the elements from elsewhere.
    ///
    /// # Safety
    /// At `source` must be that many bytes that nobody changes meanwhile.
    pub(crate) unsafe fn fill_from(&mut self, source: usize) {
        if self.bytes > 0 {
            // SAFETY: the range lies inside the memory that `_owner` keeps alive and is lent to this value alone; the
            // caller answers for the source, which is no part of the ring.
            unsafe { std::ptr::copy_nonoverlapping(source as *const u8, self.address() as *mut u8, self.bytes) };
        }
    }
}

impl Elements for LentElements {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies inside the memory that `_owner` keeps alive, and is handed over once it has been filled;
        // it is lent to nobody else before this value is dropped.
        unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.bytes) }
    }
}

impl Drop for LentElements {
    fn drop(&mut self) {
        self.memory.give_back(self.ticket);
    }
}
