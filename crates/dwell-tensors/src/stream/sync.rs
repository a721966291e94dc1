//! Locks that outlive a panic: every state here is whole between two statements that can panic.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn wait_at_most<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    patience: Duration,
) -> MutexGuard<'a, T> {
    match condition.wait_timeout(guard, patience) {
        Ok((guard, _)) => guard,
        Err(poisoned) => poisoned.into_inner().0,
    }
}
