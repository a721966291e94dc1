//! A lock that a forked child can take, whatever other threads of its parent did at that moment.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Guards a value. The thread that forks takes the lock before ([`ForkLock::take`]) and gives it back after, in parent
/// and child ([`ForkLock::give_back`]), so the child finds the value whole and the lock free.
pub(crate) struct ForkLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the one thread that has taken the lock.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. It is held for the time of a few lookups, and once for the making of the ring.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.take();
        Guard { lock: self }
    }

    pub(crate) fn take(&self) {
        while self.is_taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    }

    /// To be called by the thread that has [taken](ForkLock::take) it, or by its copy in a forked child.
    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

/// The right to use the value.
pub(crate) struct Guard<'a, T> {
    lock: &'a ForkLock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.give_back();
    }
}
