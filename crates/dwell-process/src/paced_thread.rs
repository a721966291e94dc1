//! Work at a steady pace on a thread of its own, until it is told to stop.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dwell_clock::monotonic_ns;

/// A thread that works at intervals. Dropped without [`PacedThread::stop`], it stops all the same.
pub struct PacedThread<T> {
    should_stop: Arc<AtomicBool>,
    /// `None` once joined.
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> PacedThread<T> {
    /// Starts the work at once. It has to end when [`Rhythm::is_over`].
    pub fn start(name: &str, interval: Duration, work: impl FnOnce(Rhythm) -> T + Send + 'static) -> io::Result<Self> {
        let should_stop = Arc::new(AtomicBool::new(false));
        let rhythm = Rhythm { should_stop: should_stop.clone(), interval_ns: nanos(interval), due_ns: monotonic_ns() };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(rhythm))?;
        Ok(Self { should_stop, thread: Some(thread) })
    }

    /// Whether the work has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Lets the work end, and returns its result; `None` if it was stopped before. A panic in the work continues here.
    pub fn stop(&mut self) -> Option<T> {
        self.join().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<T> PacedThread<T> {
    fn join(&mut self) -> Option<thread::Result<T>> {
        let thread = self.thread.take()?;
        self.should_stop.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join())
    }
}

impl<T> Drop for PacedThread<T> {
    fn drop(&mut self) {
        self.join();
    }
}

/// The moments at which a [`PacedThread`] works: multiples of its interval from its start on, so that they do not drift.
pub struct Rhythm {
    should_stop: Arc<AtomicBool>,
    interval_ns: u64,
    due_ns: u64,
}

impl Rhythm {
    /// Whether the thread was told to stop.
    pub fn is_over(&self) -> bool {
        self.should_stop.load(Ordering::Acquire)
    }

    /// Waits for the next moment, or returns at once when told to stop. Returns how many moments went by during the
    /// work: those are not made up for.
    pub fn wait(&mut self) -> u64 {
        let (next_ns, missed) = next_deadline(self.due_ns, self.interval_ns, monotonic_ns());
        self.due_ns = next_ns;
        wait_until(next_ns, &self.should_stop, Duration::MAX);
        missed
    }
}

/// Returns at that moment of [`monotonic_ns`], or when told to stop: at once if the calling thread is unparked, and at
/// the latest after `longest_nap`.
pub fn wait_until(due_ns: u64, should_stop: &AtomicBool, longest_nap: Duration) {
    while !should_stop.load(Ordering::Acquire) {
        let left_ns = due_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return;
        }
        thread::park_timeout(Duration::from_nanos(left_ns).min(longest_nap));
    }
}

/// The first deadline that is still ahead, and how many have gone by since the last.
fn next_deadline(due_ns: u64, interval_ns: u64, now_ns: u64) -> (u64, u64) {
    let skipped = now_ns.saturating_sub(due_ns) / interval_ns;
    (due_ns.saturating_add(interval_ns.saturating_mul(skipped + 1)), skipped)
}

/// At least 1, so that there is a next moment.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn deadlines_stay_on_their_grid_and_the_skipped_are_counted() {
        assert_eq!(next_deadline(1_000, 100, 1_020), (1_100, 0));
        assert_eq!(next_deadline(1_000, 100, 1_100), (1_200, 1));
        assert_eq!(next_deadline(1_000, 100, 1_350), (1_400, 3));
        assert_eq!(next_deadline(1_000, 100, 990), (1_100, 0));
    }

    #[test]
    fn a_thread_that_waits_an_hour_ends_when_it_is_stopped_or_dropped() {
        let start = || {
            PacedThread::start("hourly", Duration::from_secs(3600), |mut rhythm| {
                rhythm.wait();
                rhythm.is_over()
            })
        };
        let mut stopped = start().unwrap();
        assert_eq!((stopped.stop(), stopped.stop()), (Some(true), None));
        drop(start().unwrap());
    }

    #[test]
    fn moments_that_go_by_during_the_work_are_missed() {
        let interval = Duration::from_millis(10);
        let mut thread = PacedThread::start("late", interval, move |mut rhythm| {
            thread::sleep(interval * 7 / 2);
            rhythm.wait()
        })
        .unwrap();
        // A busy machine may miss more.
        let missed = thread.stop().unwrap();
        assert!(missed >= 3, "{missed}");
    }
}
