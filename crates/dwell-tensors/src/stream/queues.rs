//! The queues between the threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::parcel::EncodedParcel;
use super::sync::{lock, wait, wait_at_most};

/// First in, first out; ends when it is closed and empty.
pub(super) struct Queue<T> {
    state: Mutex<(VecDeque<T>, bool)>,
    changed: Condvar,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new((VecDeque::new(), false)), changed: Condvar::new() }
    }

    pub(super) fn push(&self, items: impl IntoIterator<Item = T>) {
        let mut state = lock(&self.state);
        let before = state.0.len();
        state.0.extend(items);
        let added = state.0.len() - before;
        drop(state);
        match added {
            0 => {}
            1 => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }

    /// Puts something before all that waits.
    pub(super) fn push_front(&self, item: T) {
        lock(&self.state).0.push_front(item);
        self.changed.notify_one();
    }

    /// The next one; `None` once the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        loop {
            if let Some(item) = state.0.pop_front() {
                return Some(item);
            }
            if state.1 {
                return None;
            }
            state = wait(&self.changed, state);
        }
    }

    pub(super) fn close(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }
}

/// Encoded parcels, put back into order.
pub(super) struct Reorder {
    state: Mutex<ReorderState>,
    changed: Condvar,
}

struct ReorderState {
    early: BTreeMap<u64, EncodedParcel>,
    next_place: u64,
    is_poked: bool,
    is_closed: bool,
}

/// What [`Reorder::next`] came back with.
pub(super) enum Next {
    Parcel(Box<EncodedParcel>),
    /// Nothing yet: time to look around.
    Nothing,
    Closed,
}

impl Reorder {
    pub(super) fn new() -> Self {
        let state = ReorderState { early: BTreeMap::new(), next_place: 0, is_poked: false, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn put(&self, parcel: EncodedParcel) {
        let mut state = lock(&self.state);
        let is_next = parcel.place == state.next_place;
        state.early.insert(parcel.place, parcel);
        drop(state);
        if is_next {
            self.changed.notify_one();
        }
    }

    /// The next parcel in order, if it comes within `patience` and nobody pokes.
    pub(super) fn next(&self, patience: Duration) -> Next {
        let mut state = lock(&self.state);
        if !state.can_go_on() {
            state = wait_at_most(&self.changed, state, patience);
        }
        let place = state.next_place;
        if let Some(parcel) = state.early.remove(&place) {
            state.next_place += 1;
            return Next::Parcel(Box::new(parcel));
        }
        state.is_poked = false;
        if state.is_closed { Next::Closed } else { Next::Nothing }
    }

    /// Wakes the writer to look around.
    pub(super) fn poke(&self) {
        lock(&self.state).is_poked = true;
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_one();
    }
}

impl ReorderState {
    fn can_go_on(&self) -> bool {
        self.is_poked || self.is_closed || self.early.contains_key(&self.next_place)
    }
}
