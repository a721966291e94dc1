//! `metadata.json`: what ran, where, how it was watched, and what to think of it.

use std::collections::BTreeMap;

use dwell_events::LossKind;
use dwell_events::engine::{Action, EngineOptions, LoadedModel};
use dwell_events::schema::memory::MemoryRow;
use dwell_label::Labelled;
use dwell_store::{ClockAnchor, RunDir, utc_text};
use serde::Serialize;

use crate::RunRecord;
use crate::host::HostFacts;
use crate::samples::ProcessSamples;
use crate::session::RecordingFacts;

/// Content of `metadata.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Metadata {
    /// Version of this file's structure.
    pub metadata_schema_version: &'static str,
    /// The run.
    pub run_id: String,
    /// The model's name.
    pub model_id: String,
    /// `complete`, or `partial` if something that should be there is missing.
    pub state: &'static str,
    /// When recording began.
    pub started_at_utc: String,
    /// Version of dwell.
    pub dwell_version: String,
    /// Command line.
    pub command_line: Vec<String>,
    /// What both clocks said at the start; every other time is CLOCK_MONOTONIC.
    pub clock: ClockAnchor,
    /// The machine.
    pub host: HostFacts,
    /// Name of the engine.
    pub engine: &'static str,
    /// How it was set up.
    pub options: EngineOptions,
    /// What it did.
    pub actions: Vec<Action>,
    /// What was loaded; missing if loading failed.
    pub model: Option<LoadedModel>,
    /// Phases with their first and last moment.
    pub phases: Vec<PhaseTimes>,
    /// Tokens and speed; missing if the worker did not finish.
    pub generation: Option<Generation>,
    /// Why sequences ended.
    pub stops: Vec<Stop>,
    /// How each table was obtained.
    pub tables: BTreeMap<&'static str, TableFacts>,
    /// How finely accesses are timed: what was asked for and what was recorded.
    pub time_resolution: Option<&'static str>,
    /// What watching cost.
    pub observer_effect: ObserverEffect,
    /// Graphs stored and computations of them.
    pub graphs: u64,
    /// Computations of graphs.
    pub graph_computations: u64,
    /// The worker's failure, if it failed.
    pub failure: Option<String>,
}

/// A phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseTimes {
    /// Its name.
    pub phase: &'static str,
    /// First moment.
    pub begin_ns: u64,
    /// Last moment.
    pub end_ns: u64,
}

/// Tokens and speed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Generation {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Time in prompt steps.
    pub prompt_ns: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Time in decode steps.
    pub decode_ns: u64,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Tokens per second in decode steps; the first token of a sequence comes from its prompt and is not counted.
    pub decode_tokens_per_s: Option<f64>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stop {
    /// The sequence.
    pub sequence: i32,
    /// Why.
    pub reason: dwell_events::engine::StopReason,
}

/// How a table was obtained.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TableFacts {
    /// Rows.
    pub rows: u64,
    /// How its figures were obtained.
    pub basis: &'static str,
    /// Collector.
    pub source: &'static str,
}

/// CPU and memory of one process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProcessCost {
    /// CPU time over the run.
    pub cpu_ns: Option<u64>,
    /// Mean CPU use, 100 = one core.
    pub cpu_mean_pct: Option<f64>,
    /// Highest resident memory among the samples.
    pub rss_peak_bytes: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Time and CPU time of the first sample.
    #[serde(skip)]
    first: Option<(u64, Option<u64>)>,
}

/// What watching cost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ObserverEffect {
    /// The process that runs the model.
    pub worker: ProcessCost,
    /// The process that watches.
    pub observer: ProcessCost,
    /// CPU time of the observer as a share of the worker's.
    pub observer_cpu_share: Option<f64>,
    /// Time for which the worker waited for the observer to take records.
    pub worker_blocked_ns: u64,
}

const RESOLUTIONS: [&str; 3] = ["step", "layer", "op"];

impl Metadata {
    /// The metadata of a run whose records were labelled.
    pub(crate) fn of(
        run: &RunDir,
        record: &RunRecord,
        facts: &RecordingFacts,
        labelled: &Labelled,
        samples: &ProcessSamples,
        table_rows: &BTreeMap<&'static str, u64>,
        is_partial: bool,
    ) -> Self {
        let outcome = &labelled.outcome;
        let phases = labelled.phases.iter().map(|span| PhaseTimes {
            phase: span.phase.name(),
            begin_ns: span.begin_ns,
            end_ns: span.end_ns,
        });
        Self {
            metadata_schema_version: "1.0",
            run_id: run.run_id().to_owned(),
            model_id: record.model_id.clone(),
            state: if is_partial { "partial" } else { "complete" },
            started_at_utc: utc_text(record.clock.unix_ns / 1_000_000_000),
            dwell_version: record.dwell_version.clone(),
            command_line: record.command_line.clone(),
            clock: record.clock,
            host: record.host.clone(),
            engine: "llama_cpp",
            options: record.job.options.clone(),
            actions: record.job.actions.clone(),
            model: outcome.model.clone(),
            phases: phases.collect(),
            generation: outcome.finished.map(|finished| Generation::of(finished, labelled.decoded_tokens)),
            stops: outcome.stops.iter().map(|&(sequence, reason)| Stop { sequence, reason }).collect(),
            tables: table_facts(table_rows, trace_basis(record, labelled)),
            time_resolution: labelled
                .hello
                .as_ref()
                .filter(|_| record.is_traced)
                .and_then(|hello| RESOLUTIONS.get(usize::from(hello.resolution)).copied()),
            observer_effect: ObserverEffect::of(samples, facts.worker_blocked_ns),
            graphs: labelled.graphs,
            graph_computations: labelled.steps,
            failure: outcome.failed.as_ref().map(|(message, _)| message.clone()).or(facts.worker_failure.clone()),
        }
    }
}

/// `exact` if every rule was known, `inferred` if some operands were taken as touched in full, `none` without a trace.
fn trace_basis(record: &RunRecord, labelled: &Labelled) -> &'static str {
    let is_assumed = labelled.loss.iter().any(|row| row.kind == LossKind::GenericOpRule);
    match (record.is_traced, is_assumed) {
        (false, _) => "none",
        (true, true) => "inferred",
        (true, false) => "exact",
    }
}

fn table_facts(rows: &BTreeMap<&'static str, u64>, trace_basis: &'static str) -> BTreeMap<&'static str, TableFacts> {
    let facts = |(&name, &rows): (&&'static str, &u64)| {
        let (basis, source) = match name {
            "memory" => ("sampled", "process"),
            "tokens" | "loss" => ("exact", "engine"),
            _ => (trace_basis, "tensor_ops"),
        };
        (name, TableFacts { rows, basis, source })
    };
    rows.iter().map(facts).collect()
}

impl Generation {
    fn of((prompt_tokens, prompt_ns, generated_tokens, decode_ns): (u64, u64, u64, u64), decoded_tokens: u64) -> Self {
        let rate = |tokens: u64, ns: u64| (ns > 0).then(|| tokens as f64 * 1e9 / ns as f64);
        Self {
            prompt_tokens,
            prompt_ns,
            generated_tokens,
            decode_ns,
            prompt_tokens_per_s: rate(prompt_tokens, prompt_ns),
            decode_tokens_per_s: rate(decoded_tokens, decode_ns),
        }
    }
}

impl ObserverEffect {
    fn of(samples: &ProcessSamples, worker_blocked_ns: u64) -> Self {
        let (worker, observer) = (samples.worker, samples.observer);
        let share = observer.cpu_ns.zip(worker.cpu_ns).filter(|&(_, worker)| worker > 0);
        Self {
            worker,
            observer,
            observer_cpu_share: share.map(|(observer, worker)| observer as f64 / worker as f64),
            worker_blocked_ns,
        }
    }
}

impl ProcessCost {
    /// Takes in the next sample of the process.
    pub(crate) fn note(&mut self, row: &MemoryRow) {
        let (first_ns, first_cpu_ns) = *self.first.get_or_insert((row.timestamp_ns, row.cpu_ns));
        self.samples += 1;
        self.rss_peak_bytes = self.rss_peak_bytes.max(Some(row.rss_bytes));
        self.cpu_ns = row.cpu_ns.zip(first_cpu_ns).map(|(last, first)| last.saturating_sub(first));
        let span_ns = row.timestamp_ns.saturating_sub(first_ns);
        self.cpu_mean_pct =
            self.cpu_ns.filter(|_| span_ns > 0).map(|spent_ns| spent_ns as f64 * 100.0 / span_ns as f64);
    }
}
