//! Sampling at a steady pace on a thread of its own.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dwell_clock::thread_cpu_ns;
use dwell_events::schema::memory::MemoryRow;

use crate::error::ProcessError;
use crate::group::{ProcessName, Reach};
use crate::paced_thread::{PacedThread, Rhythm};
use crate::sampler::Sampler;
use crate::system::Target;

/// How often to sample and to hand rows over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one sample to the next. Deadlines are multiples of it from the first sample on, so they do not drift.
    pub interval: Duration,
    /// Longest time that rows are kept before they are handed over.
    pub hand_over_every: Duration,
}

impl Pace {
    /// Samples at this interval, handed over every second.
    pub fn every(interval: Duration) -> Self {
        Self { interval, hand_over_every: Duration::from_secs(1) }
    }
}

/// What a sampling thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplerSummary {
    /// Samples taken, each of all processes.
    pub samples: u64,
    /// Samples that were due and could not be taken in time.
    pub missed: u64,
    /// CPU time of the thread, with what the receiver of the rows did on it.
    pub own_cpu_ns: u64,
    /// Processes that ended meanwhile.
    pub gone_pids: Vec<u32>,
    /// Every process, with the program that it ran when it was last sampled.
    pub names: Vec<ProcessName>,
}

/// A sampler at work. Dropped without [`SamplerThread::stop`], it stops all the same.
pub struct SamplerThread {
    added: Arc<Mutex<Added>>,
    walk_wanted: Arc<AtomicBool>,
    thread: PacedThread<SamplerSummary>,
}

impl SamplerThread {
    /// Starts sampling at once.
    ///
    /// `on_rows` is called on the sampling thread with the rows since the last call, never with none. While it
    /// runs no sample is taken, so what takes long belongs behind a channel. Breaking ends the sampling. The
    /// thread ends by itself when all processes have; one that was given none yet waits for its first.
    pub fn start(
        sampler: Sampler,
        pace: Pace,
        on_rows: impl FnMut(&[MemoryRow]) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Self, ProcessError> {
        if pace.interval.is_zero() {
            return Err(ProcessError::ZeroInterval);
        }
        let added = Arc::new(Mutex::new(Added::Open(Vec::new())));
        let walk_wanted = Arc::new(AtomicBool::new(false));
        let rounds = Rounds {
            sampler,
            hand_over_every: pace.hand_over_every,
            on_rows,
            added: added.clone(),
            walk_wanted: walk_wanted.clone(),
            rows: Vec::new(),
        };
        let thread = PacedThread::start("dwell-process", pace.interval, move |rhythm| rounds.run(rhythm))
            .map_err(|source| ProcessError::NoThread { source })?;
        Ok(Self { added, walk_wanted, thread })
    }

    /// Adds processes from any thread while the sampling goes on.
    pub fn handle(&self) -> SamplerHandle {
        SamplerHandle { added: self.added.clone() }
    }

    /// Walks the page tables for `pss` and `uss` in the next sample, however short ago that was.
    pub fn walk_next(&self) {
        self.walk_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether the sampling has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes a last sample, hands over what is left, and ends the thread.
    ///
    /// A panic in `on_rows` goes on here.
    pub fn stop(mut self) -> SamplerSummary {
        self.thread.stop().unwrap_or_default()
    }
}

/// Processes on their way to the sampling thread.
enum Added {
    Open(Vec<NewTarget>),
    /// The thread has ended.
    Closed,
}

struct NewTarget {
    label: String,
    reach: Reach,
    target: Target,
}

/// Adds processes to a sampling that goes on.
#[derive(Clone)]
pub struct SamplerHandle {
    added: Arc<Mutex<Added>>,
}

impl SamplerHandle {
    /// From the next sample on, samples this process and all its descendants, as [`Sampler::watch_tree`] does.
    pub fn add_root(&self, label: &str, pid: u32) -> Result<(), ProcessError> {
        self.add(label, Reach::Trees, pid)
    }

    /// From the next sample on, samples this process alone.
    pub fn add_process(&self, label: &str, pid: u32) -> Result<(), ProcessError> {
        self.add(label, Reach::Processes, pid)
    }

    fn add(&self, label: &str, reach: Reach, pid: u32) -> Result<(), ProcessError> {
        let target = Target::open(label, pid)?;
        match &mut *self.added.lock().unwrap_or_else(PoisonError::into_inner) {
            Added::Open(waiting) => waiting.push(NewTarget { label: label.to_owned(), reach, target }),
            Added::Closed => return Err(ProcessError::SamplingEnded { label: label.to_owned(), pid }),
        }
        Ok(())
    }
}

/// The work of the thread.
struct Rounds<F> {
    sampler: Sampler,
    hand_over_every: Duration,
    on_rows: F,
    added: Arc<Mutex<Added>>,
    walk_wanted: Arc<AtomicBool>,
    rows: Vec<MemoryRow>,
}

impl<F: FnMut(&[MemoryRow]) -> ControlFlow<()>> Rounds<F> {
    fn run(mut self, mut rhythm: Rhythm) -> SamplerSummary {
        let mut summary = SamplerSummary::default();
        let mut handed_over_at = Instant::now();
        loop {
            let is_last = rhythm.is_over();
            self.take_added();
            if self.walk_wanted.swap(false, Ordering::Relaxed) {
                self.sampler.walk_next();
            }
            self.sampler.sample_into(&mut self.rows);
            summary.samples += 1;
            let is_last = is_last || self.sampler.has_all_samples() || (self.sampler.are_all_gone() && self.close());
            if is_last || handed_over_at.elapsed() >= self.hand_over_every {
                handed_over_at = Instant::now();
                if self.hand_over().is_break() {
                    break;
                }
            }
            if is_last {
                break;
            }
            summary.missed += rhythm.wait();
        }
        *self.added() = Added::Closed;
        summary.gone_pids = self.sampler.gone().iter().map(|process| process.pid).collect();
        summary.names = self.sampler.names();
        summary.own_cpu_ns = thread_cpu_ns();
        summary
    }

    fn added(&self) -> std::sync::MutexGuard<'_, Added> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_added(&mut self) {
        let waiting = match &mut *self.added() {
            Added::Open(waiting) => std::mem::take(waiting),
            Added::Closed => return,
        };
        for NewTarget { label, reach, target } in waiting {
            self.sampler.add(&label, reach, target);
        }
    }

    /// Lets nobody add any more, unless somebody has just done so.
    fn close(&self) -> bool {
        let mut added = self.added();
        let is_empty = !matches!(&*added, Added::Open(waiting) if !waiting.is_empty());
        if is_empty {
            *added = Added::Closed;
        }
        is_empty
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        let flow = if self.rows.is_empty() { ControlFlow::Continue(()) } else { (self.on_rows)(&self.rows) };
        self.rows.clear();
        flow
    }
}
