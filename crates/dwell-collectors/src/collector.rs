//! What a collector is: one seam from "can it work here" to its tables.

use std::path::Path;

use dwell_analysis::energy::EnergySeries;
use dwell_events::engine::{EngineEvent, EngineKind};
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::region_map::RegionRow;
use dwell_events::server::{KvEventsOptions, TracedProcess};
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_host::{MemorySampling, Root};
use dwell_kv_events::KvBlocksReport;
use dwell_metadata::{Agreement, CollectorEnd, RunRecord, RunRequest};
use dwell_store::{RunDir, StoreError};
use serde_json::Value;

use crate::{CollectError, ProcessSamples};

/// What a collector is. Documentation, `dwell doctor` and metadata say it in these words.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Its name.
    pub name: CollectorName,
    /// What it observes.
    pub observes: &'static str,
    /// How its figures are obtained.
    pub basis: Basis,
    /// What it costs, as measured.
    pub cost: &'static str,
    /// What it needs.
    pub needs: &'static str,
    /// What [`Collector::check`] does to find out whether it works.
    pub tried: &'static str,
}

/// One way of watching a run.
///
/// ```text
/// check ─▶ settings ─▶ begin ─▶ Watching: worker_started, engine_event and poll, end ─▶ raw stream
///                                                  salvage, if the observer was killed ─┤
///                                                                                build ◀┘─▶ tables, losses
/// ```
pub trait Collector: Sync {
    /// What it is.
    fn description(&self) -> &'static Description;

    /// Whether it works here, found out by doing what it does.
    fn check(&self, place: &CheckPlace<'_>) -> Outcome;

    /// Why it cannot watch an engine, on whatever machine; none if it can.
    fn cannot_watch(&self, _: &Target<'_>) -> Option<String> {
        None
    }

    /// Its settings for a run: whatever [`Collector::begin`] and [`Collector::build`] need, stored in `raw/run.json`.
    fn settings(&self, wanted: &Wanted<'_>) -> Value;

    /// Begins to watch, before the worker starts.
    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError>;

    /// Puts what a killed observer left elsewhere into the raw stream.
    fn salvage(&self, _: &RunDir) -> Result<(), CollectError> {
        Ok(())
    }

    /// Makes tables of its raw stream, however that ended. Called for every run, also for one that it did not watch:
    /// a table that readers count on is then empty.
    fn build(&self, run: &RunDir, record: &RunRecord, collected: &mut Collected) -> Result<(), StoreError>;

    /// Makes tables whose rows are named by what the exact trace knows. Called after the trace was written.
    fn build_named(&self, _: &RunDir, _: &RunRecord, _: &Known<'_>, _: &mut Collected) -> Result<(), StoreError> {
        Ok(())
    }

    /// Tables that no other collector fills, declared beside it.
    fn own_tables(&self) -> &'static [Table] {
        &[]
    }
}

/// A collector at work. Dropped without [`Watching::end`], it stops all the same.
pub trait Watching {
    /// What the worker's environment needs to have.
    fn worker_environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The worker runs.
    fn worker_started(&mut self, _pid: u32) -> Result<(), CollectError> {
        Ok(())
    }

    /// The engine reported something.
    fn engine_event(&mut self, _: &EngineEvent) {}

    /// Writes what was gathered since the last call, some 20 times a second. Says whether the model was seen to compute.
    fn poll(&mut self) -> Result<bool, CollectError>;

    /// Stops and writes what is left.
    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError>;
}

/// Where it is found out whether collectors work.
pub struct CheckPlace<'a> {
    /// Files of the kernel.
    pub root: Root,
    /// Folder that results go to.
    pub results: &'a Path,
    /// Runs a small model in a hidden folder of that one and counts the accesses that were recorded. Only a program that
    /// can also be the worker is able to do it.
    pub run_small_model: &'a dyn Fn(&Path) -> Result<u64, TrialFailure>,
}

/// Why a small model could not be run.
#[derive(Clone, Debug)]
pub struct TrialFailure {
    /// What was being done, found, needed.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// An engine that is to be watched.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The engine.
    pub engine: EngineKind,
    /// Whether it runs already.
    pub is_joined: bool,
    /// Where it publishes what becomes of its KV blocks.
    pub kv_events: Option<&'a KvEventsOptions>,
}

/// What command lines and experiments can ask of collectors; each takes what concerns it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Time between two samples.
    pub sample_interval_ms: u64,
    /// Where the server publishes what becomes of its KV blocks.
    pub kv_events: Option<&'a KvEventsOptions>,
    /// Whether the engine runs in a browser.
    pub is_in_browser: bool,
    /// How often memory accesses are sampled, and which.
    pub memory_sampling: MemorySampling,
}

/// As often as not to slow a program that loads a billion times a second by more than it varies by itself; a prime, so that loops do not
/// hide. The threshold is that of perf.
pub const MEMORY_SAMPLING: MemorySampling = MemorySampling { period: 10_007, least_latency_cycles: 30 };

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { sample_interval_ms: 100, kv_events: None, is_in_browser: false, memory_sampling: MEMORY_SAMPLING }
    }
}

/// What the exact trace of a run knows.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Tensors by address.
    pub regions: &'a [RegionRow],
    /// Processes of an engine that is a program of its own; none for the embedded one.
    pub processes: &'a [TracedProcess],
}

impl Known<'_> {
    /// Whether all tensors are of one process, so that an address tells which tensor is meant.
    pub fn has_one_process(&self) -> bool {
        self.processes.len() <= 1
    }
}

/// What became of the raw streams of all collectors; each adds to it.
#[derive(Default)]
pub struct Collected {
    /// Tables that were written.
    pub tables: Vec<BuiltTable>,
    /// What is missing from them.
    pub losses: Vec<LossRow>,
    /// Memory over time, for what is computed from it.
    pub samples: ProcessSamples,
    /// What a server said of its KV blocks.
    pub kv_blocks: Option<KvBlocksReport>,
    /// How far collectors agree that see the same.
    pub agreements: Vec<Agreement>,
    /// What meters of energy had added up.
    pub energy: EnergySeries,
}

/// A table that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltTable {
    /// The table.
    pub table: Table,
    /// Its rows.
    pub rows: u64,
    /// How they were obtained.
    pub basis: Basis,
    /// Who saw them.
    pub source: CollectorName,
}

impl Collected {
    /// Adds a loss, unless it happened 0 times.
    pub(crate) fn lost(&mut self, source: CollectorName, kind: LossKind, count: u64, detail: &str) {
        if count > 0 {
            let (source, detail) = (source.name(), detail.to_owned());
            self.losses.push(LossRow { kind, source, count, bytes: None, detail });
        }
    }

    /// Whether a collector has written this table.
    pub fn has(&self, table: Table) -> bool {
        self.tables.iter().any(|built| built.table == table)
    }
}
