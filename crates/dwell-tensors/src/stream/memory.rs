//! The memory that tensors on their way may take.
//!
//! Everything is paid for before it is allocated. Buffers that nobody uses are kept for the next tensor of that size,
//! because fresh pages cost more than copying into them; they stay paid for, and give way when something else is
//! needed. Who waits is served in the order of coming.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::buffers::{Block, Shelves, capacity_for, payload_room};
use super::grant::{Grant, Lease, PayloadBuffer, RawBuffer};
use super::sync::{lock, wait_at_most};

/// The budget of a stream.
pub(super) struct Memory {
    limit_bytes: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Paid for: leases, buffers in use and idle buffers.
    used_bytes: u64,
    /// The idle part of it.
    idle_bytes: u64,
    peak_bytes: u64,
    idle_blocks: Shelves<Block>,
    idle_payloads: Shelves<Vec<u8>>,
    /// Tickets of those who wait, in the order of coming.
    queue: VecDeque<u64>,
    next_ticket: u64,
    waited: Duration,
    is_closed: bool,
}

/// What a tensor needs at once, in bytes; 0 is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// A buffer for its elements.
    pub(super) raw: usize,
    /// A buffer for its payload.
    pub(super) payload: usize,
    /// What it takes elsewhere.
    pub(super) extra: u64,
}

impl Need {
    /// What is paid for it.
    pub(super) fn bytes(&self) -> u64 {
        self.extra + capacity_for(self.raw) as u64 + capacity_for(self.payload) as u64
    }
}

/// Why nothing was granted.
#[derive(Debug)]
pub(super) enum Refused {
    /// There was none within the time.
    NotYet,
    /// The stream has ended or failed.
    Closed,
    /// The system has none.
    System(io::Error),
}

impl Memory {
    pub(super) fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, state: Mutex::default(), freed: Condvar::new() })
    }

    /// Whether so much could be granted if nothing else were.
    pub(super) fn could_hold(&self, need: Need) -> bool {
        need.bytes() <= self.limit_bytes
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Grants without waiting, unless others wait already.
    pub(super) fn try_acquire(self: &Arc<Self>, need: Need) -> Option<Grant> {
        let mut state = lock(&self.state);
        if state.is_closed || !state.queue.is_empty() || !state.has_room(need, self.limit_bytes) {
            return None;
        }
        // A system without memory is told to who can wait.
        self.grant(&mut state, need).ok()
    }

    /// Grants as soon as there is room and nobody came earlier. `on_wait` is called once before the first wait, when it
    /// shows already that somebody waits: whoever is woken by it would else go to sleep again.
    pub(super) fn acquire(
        self: &Arc<Self>,
        need: Need,
        patience: Option<Duration>,
        on_wait: impl FnOnce(),
    ) -> Result<Grant, Refused> {
        if let Some(grant) = self.try_acquire(need) {
            return Ok(grant);
        }
        let began = Instant::now();
        let ticket = lock(&self.state).take_ticket();
        on_wait();
        let mut state = lock(&self.state);
        let outcome = loop {
            if state.is_closed {
                break Err(Refused::Closed);
            }
            if state.queue.front() == Some(&ticket) && state.has_room(need, self.limit_bytes) {
                break self.grant(&mut state, need).map_err(Refused::System);
            }
            let left = match patience {
                Some(patience) => patience.saturating_sub(began.elapsed()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break Err(Refused::NotYet);
            }
            state = wait_at_most(&self.freed, state, left);
        };
        state.queue.retain(|&other| other != ticket);
        state.waited += began.elapsed();
        drop(state);
        // The next in the queue may have room too.
        self.freed.notify_all();
        outcome
    }

    /// Whether somebody waits.
    pub(super) fn is_awaited(&self) -> bool {
        !lock(&self.state).queue.is_empty()
    }

    /// Nothing is granted any more; who waits is sent away.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.freed.notify_all();
    }

    /// Bytes in use, the most they were, and how long producers waited.
    pub(super) fn figures(&self) -> (u64, u64, Duration) {
        let state = lock(&self.state);
        (state.used_bytes, state.peak_bytes, state.waited)
    }

    /// Expects that there is room. Allocates under the lock, so that what gave way is gone before.
    fn grant(self: &Arc<Self>, state: &mut State, need: Need) -> io::Result<Grant> {
        let (raw_capacity, payload_capacity) = (capacity_for(need.raw), capacity_for(need.payload));
        let idle_block = state.idle_blocks.take(raw_capacity);
        let idle_payload = state.idle_payloads.take(payload_capacity);
        let mut fresh_bytes = need.extra;
        for (is_idle, capacity) in [(idle_block.is_some(), raw_capacity), (idle_payload.is_some(), payload_capacity)] {
            if is_idle {
                state.idle_bytes -= capacity as u64;
            } else {
                fresh_bytes += capacity as u64;
            }
        }
        state.give_way(self.limit_bytes.saturating_sub(fresh_bytes));
        state.used_bytes += fresh_bytes;
        let buffers = buffers(idle_block, raw_capacity, idle_payload, payload_capacity);
        let (block, bytes) = buffers.inspect_err(|_| state.used_bytes -= need.bytes())?;
        state.peak_bytes = state.peak_bytes.max(state.used_bytes);
        Ok(Grant {
            raw: RawBuffer::new(self, block),
            payload: PayloadBuffer::new(self, payload_capacity, bytes),
            extra: Lease::new(self, need.extra),
        })
    }

    /// Keeps a buffer for elements for the next one.
    pub(super) fn shelve_block(&self, block: Block) {
        let capacity = block.bytes().len();
        let mut state = lock(&self.state);
        state.idle_bytes += capacity as u64;
        state.idle_blocks.put(capacity, block);
        drop(state);
        self.freed.notify_all();
    }

    /// Keeps a buffer for payloads for the next one.
    pub(super) fn shelve_payload(&self, capacity: usize, bytes: Vec<u8>) {
        let mut state = lock(&self.state);
        state.idle_bytes += capacity as u64;
        state.idle_payloads.put(capacity, bytes);
        drop(state);
        self.freed.notify_all();
    }

    /// Takes back what was paid for.
    pub(super) fn release(&self, bytes: u64) {
        if bytes > 0 {
            lock(&self.state).used_bytes -= bytes;
            self.freed.notify_all();
        }
    }
}

/// The idle buffers, or new ones where there are none.
fn buffers(
    block: Option<Block>,
    raw_capacity: usize,
    payload: Option<Vec<u8>>,
    payload_capacity: usize,
) -> io::Result<(Option<Block>, Vec<u8>)> {
    let block = match block {
        None if raw_capacity > 0 => Some(Block::new(raw_capacity)?),
        idle => idle,
    };
    Ok((block, payload.map_or_else(|| payload_room(payload_capacity), Ok)?))
}

impl State {
    /// A place at the end of the queue.
    fn take_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back(ticket);
        ticket
    }

    fn has_room(&self, need: Need, limit_bytes: u64) -> bool {
        self.used_bytes - self.idle_bytes + need.bytes() <= limit_bytes
    }

    /// Frees idle buffers, large ones first, until no more than this is used.
    fn give_way(&mut self, most_bytes: u64) {
        while self.used_bytes > most_bytes {
            let freed = self.idle_blocks.free_one().or_else(|| self.idle_payloads.free_one());
            let Some(capacity) = freed else { return };
            self.used_bytes -= capacity as u64;
            self.idle_bytes -= capacity as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(raw: usize, extra: u64) -> Need {
        Need { raw, payload: 0, extra }
    }

    #[test]
    fn a_buffer_is_used_again_and_stays_paid_for_while_it_is_idle() {
        let memory = Memory::new(10_000);
        let mut grant = memory.try_acquire(need(4096, 0)).unwrap();
        grant.raw.append(b"mark");
        drop(grant);
        assert_eq!(memory.figures().0, 4096);
        let mut again = memory.try_acquire(need(100, 0)).unwrap();
        again.raw.set_length(4);
        assert_eq!(again.raw.bytes(), b"mark");
        assert_eq!(memory.figures().0, 4096);
    }

    #[test]
    fn idle_buffers_give_way_to_another_size() {
        let memory = Memory::new(10_000);
        drop((memory.try_acquire(need(4096, 0)), memory.try_acquire(need(4096, 0))));
        assert_eq!(memory.figures().0, 8192);
        let grant = memory.try_acquire(need(8192, 0)).unwrap();
        assert_eq!((memory.figures().0, memory.figures().1), (8192, 8192));
        assert!(memory.try_acquire(need(4096, 0)).is_none());
        drop(grant);
    }

    #[test]
    fn who_comes_later_waits_behind_who_waits() {
        let memory = Memory::new(10_000);
        let first = memory.try_acquire(need(0, 6000)).unwrap();
        std::thread::scope(|scope| {
            let large = scope.spawn(|| memory.acquire(need(0, 9000), None, || ()).map(|_| ()));
            while !memory.is_awaited() {
                std::thread::yield_now();
            }
            // There would be room for this one.
            assert!(memory.try_acquire(need(0, 1000)).is_none());
            drop(first);
            assert!(large.join().unwrap().is_ok());
        });
        assert!(memory.try_acquire(need(0, 1000)).is_some());
    }

    #[test]
    fn who_is_woken_because_somebody_waits_sees_that_somebody_does() {
        let memory = Memory::new(10_000);
        let _held = memory.try_acquire(need(0, 9000)).unwrap();
        let mut is_seen = false;
        let refused = memory.acquire(need(0, 9000), Some(Duration::ZERO), || is_seen = memory.is_awaited());
        assert!(matches!(refused, Err(Refused::NotYet)) && is_seen && !memory.is_awaited());
    }

    #[test]
    fn what_the_system_refuses_is_not_paid_for() {
        let memory = Memory::new(u64::MAX);
        let too_large = Need { raw: 4096, payload: isize::MAX as usize / 2, extra: 7 };
        assert!(matches!(memory.acquire(too_large, None, || ()), Err(Refused::System(_))));
        assert_eq!(memory.figures().0, 0);
    }

    #[test]
    fn who_waits_is_sent_away_when_the_stream_ends() {
        let memory = Memory::new(10_000);
        let _held = memory.try_acquire(need(0, 9000)).unwrap();
        assert!(matches!(memory.acquire(need(0, 9000), Some(Duration::ZERO), || ()), Err(Refused::NotYet)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| memory.acquire(need(0, 9000), None, || ()).map(|_| ()));
            while !memory.is_awaited() {
                std::thread::yield_now();
            }
            memory.close();
            assert!(matches!(waiting.join().unwrap(), Err(Refused::Closed)));
        });
    }
}
