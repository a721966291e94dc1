//! What watching cost: the observer beside the observed, and the same work without recording.

use dwell_events::schema::memory::MemoryRow;
use serde::{Deserialize, Serialize};

use crate::Generation;

/// CPU and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessCost {
    /// CPU time over the run.
    pub cpu_ns: Option<u64>,
    /// Mean CPU use, 100 = one core.
    pub cpu_mean_pct: Option<f64>,
    /// Highest resident memory: among the samples and, of a worker that came to its end, by the kernel's account.
    pub rss_peak_bytes: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Time and CPU time of the first sample.
    #[serde(skip)]
    first: Option<(u64, Option<u64>)>,
}

/// What watching cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObserverEffect {
    /// The process that runs the model.
    pub worker: ProcessCost,
    /// The process that watches.
    pub observer: ProcessCost,
    /// CPU time of the observer as a share of the worker's.
    pub observer_cpu_share: Option<f64>,
    /// Highest resident memory of the observer as a share of the worker's.
    pub observer_memory_share: Option<f64>,
    /// Highest resident memory of the observer by the kernel's account, including the building of the tables.
    pub observer_peak_rss_bytes: Option<u64>,
    /// Time for which the worker waited for the observer to take records.
    pub worker_blocked_ns: u64,
    /// Speed against the same work without recording, if that was measured.
    pub slowdown: Option<Slowdown>,
}

/// A run of the same work without recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UntracedRun {
    /// The run.
    pub run_id: String,
    /// Its prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Its tokens per second in decode steps.
    pub decode_tokens_per_s: Option<f64>,
}

/// Speed while recording, as a share of the speed without: 1 is no slow-down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slowdown {
    /// The run that was not recorded.
    pub untraced_run_id: String,
    /// Of prompt steps.
    pub prompt_speed_share: Option<f64>,
    /// Of decode steps.
    pub decode_speed_share: Option<f64>,
}

impl Slowdown {
    fn of(traced: &Generation, untraced: &UntracedRun) -> Self {
        let share = |traced: Option<f64>, untraced: Option<f64>| {
            traced.zip(untraced).filter(|&(_, untraced)| untraced > 0.0).map(|(traced, untraced)| traced / untraced)
        };
        Self {
            untraced_run_id: untraced.run_id.clone(),
            prompt_speed_share: share(traced.prompt_tokens_per_s, untraced.prompt_tokens_per_s),
            decode_speed_share: share(traced.decode_tokens_per_s, untraced.decode_tokens_per_s),
        }
    }
}

impl ObserverEffect {
    /// The cost from that of both processes, and the same work without recording.
    pub fn of(
        (worker, observer): (ProcessCost, ProcessCost),
        worker_peak_rss_bytes: Option<u64>,
        worker_blocked_ns: u64,
        generation: Option<&Generation>,
        untraced: Option<&UntracedRun>,
    ) -> Self {
        let rss_peak_bytes = worker.rss_peak_bytes.max(worker_peak_rss_bytes);
        let worker = ProcessCost { rss_peak_bytes, ..worker };
        let memory = observer.rss_peak_bytes.zip(worker.rss_peak_bytes).filter(|&(_, worker)| worker > 0);
        let share = observer.cpu_ns.zip(worker.cpu_ns).filter(|&(_, worker)| worker > 0);
        Self {
            worker,
            observer,
            observer_cpu_share: share.map(|(observer, worker)| observer as f64 / worker as f64),
            observer_memory_share: memory.map(|(observer, worker)| observer as f64 / worker as f64),
            observer_peak_rss_bytes: None,
            worker_blocked_ns,
            slowdown: generation.zip(untraced).map(|(traced, untraced)| Slowdown::of(traced, untraced)),
        }
    }
}

impl ProcessCost {
    /// Takes in the next sample of the process.
    pub fn note(&mut self, row: &MemoryRow) {
        let (first_ns, first_cpu_ns) = *self.first.get_or_insert((row.timestamp_ns, row.cpu_ns));
        self.samples += 1;
        self.rss_peak_bytes = self.rss_peak_bytes.max(Some(row.rss_bytes));
        self.cpu_ns = row.cpu_ns.zip(first_cpu_ns).map(|(last, first)| last.saturating_sub(first));
        let span_ns = row.timestamp_ns.saturating_sub(first_ns);
        self.cpu_mean_pct =
            self.cpu_ns.filter(|_| span_ns > 0).map(|spent_ns| spent_ns as f64 * 100.0 / span_ns as f64);
    }
}
