//! Sampling at a steady pace on a thread of its own, for collectors that only look.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use dwell_process::{PacedThread, Rhythm};

/// A thread that looks at intervals. Dropped without [`AtIntervals::stop`], it stops all the same.
pub struct AtIntervals<S> {
    /// Returns how many samples were due and not taken.
    thread: PacedThread<u64>,
    samples: Receiver<S>,
}

impl<S: Send + 'static> AtIntervals<S> {
    /// Takes a sample now, at every multiple of the interval from now on, and one at the end.
    pub fn start(name: &str, interval: Duration, look: impl FnMut() -> S + Send + 'static) -> io::Result<Self> {
        let (sender, samples) = mpsc::channel();
        let interval = interval.max(Duration::from_millis(1));
        let thread = PacedThread::start(name, interval, move |rhythm| sample(look, rhythm, &sender))?;
        Ok(Self { thread, samples })
    }

    /// The samples since the last call.
    pub fn take(&self) -> impl Iterator<Item = S> + '_ {
        self.samples.try_iter()
    }

    /// Lets the thread take its last sample and end. Returns how many samples were due and not taken.
    pub fn stop(&mut self) -> u64 {
        self.thread.stop().unwrap_or_default()
    }
}

fn sample<S>(mut look: impl FnMut() -> S, mut rhythm: Rhythm, samples: &Sender<S>) -> u64 {
    let mut missed = 0;
    loop {
        let is_last = rhythm.is_over();
        if samples.send(look()).is_err() || is_last {
            return missed;
        }
        missed += rhythm.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_look_that_takes_three_intervals_misses_as_many() {
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
        assert!(missed >= 3, "{missed}");
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
