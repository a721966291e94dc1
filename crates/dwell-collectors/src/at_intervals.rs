//! Sampling at a steady pace on a thread of its own, for collectors that only look.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that looks at intervals. Dropped without [`AtIntervals::stop`], it stops all the same.
pub struct AtIntervals<S> {
    should_stop: Arc<AtomicBool>,
    /// None once joined. It returns the samples that were due and not taken.
    thread: Option<JoinHandle<u64>>,
    samples: Receiver<S>,
}

impl<S: Send + 'static> AtIntervals<S> {
    /// Takes a sample now, at every multiple of the interval from now on, and one at the end.
    pub fn start(name: &str, interval: Duration, look: impl FnMut() -> S + Send + 'static) -> io::Result<Self> {
        let (sender, samples) = mpsc::channel();
        let should_stop = Arc::new(AtomicBool::new(false));
        let seen = should_stop.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || sample(look, interval.max(Duration::from_millis(1)), &seen, &sender))?;
        Ok(Self { should_stop, thread: Some(thread), samples })
    }

    /// The samples since the last call.
    pub fn take(&self) -> impl Iterator<Item = S> + '_ {
        self.samples.try_iter()
    }

    /// Lets the thread take its last sample and end. Returns how many samples were due and not taken.
    pub fn stop(&mut self) -> u64 {
        let Some(thread) = self.thread.take() else { return 0 };
        self.should_stop.store(true, Ordering::Release);
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

impl<S> Drop for AtIntervals<S> {
    fn drop(&mut self) {
        // It ends by itself at its next look; nobody waits for that.
        self.should_stop.store(true, Ordering::Release);
    }
}

fn sample<S>(mut look: impl FnMut() -> S, interval: Duration, should_stop: &AtomicBool, samples: &Sender<S>) -> u64 {
    let begin = Instant::now();
    let (mut due, mut missed) = (begin, 0);
    loop {
        let is_last = should_stop.load(Ordering::Acquire);
        if samples.send(look()).is_err() || is_last {
            return missed;
        }
        due += interval;
        // Deadlines do not drift: what was missed is counted and not made up for.
        while due + interval < Instant::now() {
            due += interval;
            missed += 1;
        }
        wait_until(due, should_stop);
    }
}

fn wait_until(due: Instant, should_stop: &AtomicBool) {
    while !should_stop.load(Ordering::Acquire) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_three_intervals_misses_two_of_them() {
        let interval = Duration::from_millis(40);
        let mut looks = 0;
        let slow_once = move || {
            looks += 1;
            if looks == 1 {
                thread::sleep(interval * 7 / 2);
            }
            looks
        };
        let mut sampling = AtIntervals::start("slow", interval, slow_once).expect("threads can be started");
        let mut taken = Vec::new();
        while taken.len() < 2 {
            taken.extend(sampling.take());
            thread::sleep(Duration::from_millis(1));
        }
        let missed = sampling.stop();
        taken.extend(sampling.take());
        // A busy machine may miss more.
        assert!(missed >= 2, "{missed}");
        assert_eq!(taken, (1..=taken.len()).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_sample_and_the_last_are_taken_whatever_the_interval() {
        let mut sampling =
            AtIntervals::start("rare", Duration::from_secs(3600), || ()).expect("threads can be started");
        assert_eq!(sampling.stop(), 0);
        let taken = sampling.take().count();
        assert!((1..=2).contains(&taken), "{taken}");
    }
}
