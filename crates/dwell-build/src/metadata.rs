//! `metadata.json`: what ran, where, how it was watched, and what to think of it.

use std::collections::BTreeMap;

use dwell_analysis::MetricsReport;
use dwell_analysis::memory::MemoryReport;
use dwell_analysis::quality::Quality;
use dwell_analysis::validity::Validity;
use dwell_events::engine::{Action, EngineOptions, LoadedModel, TimeResolution};
use dwell_events::host::{Baseline, Host, SensorSummary};
use dwell_events::server::ServerFacts;
use dwell_events::{LossKind, PhaseSpan, RequestSpan};
use dwell_kv_events::{KV_EVENTS_COLLECTOR, KvBlocksReport};
use dwell_label::Labelled;
use dwell_metadata::{BuildOptions, ExperimentRun, Fallback, Generation, ObserverEffect, PageCache, RunRecord};
use dwell_store::{ClockAnchor, RunDir, utc_text};
use serde::Serialize;

use crate::build::{Built, is_partial};
use crate::judgement::{quality, validity};

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
    pub host: Host,
    /// Name of the engine.
    pub engine: &'static str,
    /// What a server said of itself.
    pub server: Option<ServerFacts>,
    /// Requests to a server.
    pub requests: Vec<RequestSpan>,
    /// In which state the model was to be when the run began.
    pub start: &'static str,
    /// How much of the model's file was in the page cache when the run began.
    pub page_cache: Option<PageCache>,
    /// What a server said of its KV blocks.
    pub kv_blocks: Option<KvBlocksReport>,
    /// Where the memory went, and what a token takes.
    pub memory: Option<MemoryReport>,
    /// How it was set up.
    pub options: EngineOptions,
    /// What it did.
    pub actions: Vec<Action>,
    /// What was loaded; missing if loading failed.
    pub model: Option<LoadedModel>,
    /// Phases with their first and last moment.
    pub phases: Vec<PhaseSpan>,
    /// Tokens and speed; missing if the worker did not finish.
    pub generation: Option<Generation>,
    /// Why sequences ended.
    pub stops: Vec<Stop>,
    /// How each table was obtained.
    pub tables: BTreeMap<&'static str, TableFacts>,
    /// How finely accesses are timed: what was asked for and what was recorded.
    pub time_resolution: Option<&'static str>,
    /// The experiment that the run belongs to.
    pub experiment: Option<ExperimentRun>,
    /// What was used to watch, and what could not be.
    pub collectors: CollectorFacts,
    /// What the machine did before and meanwhile.
    pub telemetry: Telemetry,
    /// What watching cost.
    pub observer_effect: ObserverEffect,
    /// Whether the run counts.
    pub validity: Validity,
    /// Whether what was recorded is whole enough to be used.
    pub quality: Quality,
    /// How tables and figures were made.
    pub build: BuildOptions,
    /// Graphs stored and computations of them.
    pub graphs: u64,
    /// Computations of graphs.
    pub graph_computations: u64,
    /// The worker's failure, if it failed.
    pub failure: Option<String>,
}

/// What was used to watch, and what could not be.
#[derive(Clone, Debug, Serialize)]
pub struct CollectorFacts {
    /// Collectors that were used.
    pub used: Vec<&'static str>,
    /// Collectors that were wanted and do not work here.
    pub fallbacks: Vec<Fallback>,
}

/// What the machine did before the run and meanwhile.
#[derive(Clone, Debug, Serialize)]
pub struct Telemetry {
    /// Before the run; none if that was not looked at.
    pub baseline: Option<Baseline>,
    /// Meanwhile; none if the observer was killed.
    pub sensors: Option<SensorSummary>,
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

impl Metadata {
    /// The metadata of a run whose records were labelled.
    pub(crate) fn of(
        run: &RunDir,
        built: &Built<'_>,
        metrics: &MetricsReport,
        table_rows: &BTreeMap<&'static str, u64>,
    ) -> Self {
        let Built { record, facts, labelled, samples, .. } = built;
        let (request, outcome) = (&record.request, &labelled.outcome);
        let generation = outcome.finished.map(|finished| Generation::of(finished, decoded_tokens(labelled)));
        let telemetry = Telemetry { baseline: record.baseline.clone(), sensors: facts.sensors.clone() };
        let untraced = request.untraced.as_ref();
        let peak = outcome.peak_rss_bytes;
        let processes = (samples.worker, samples.observer);
        let effect = ObserverEffect::of(processes, peak, facts.worker_blocked_ns, generation.as_ref(), untraced);
        Self {
            metadata_schema_version: "1.2",
            run_id: run.run_id().to_owned(),
            model_id: request.model_id.clone(),
            state: if is_partial(labelled) { "partial" } else { "complete" },
            started_at_utc: utc_text(record.clock.unix_ns / 1_000_000_000),
            dwell_version: record.dwell_version.clone(),
            command_line: request.command_line.clone(),
            clock: record.clock,
            host: record.host.clone(),
            engine: request.job.engine.name(),
            server: outcome.server.clone(),
            requests: outcome.requests.clone(),
            start: request.job.server.start.name(),
            page_cache: record.page_cache,
            kv_blocks: built.kv_blocks.clone(),
            memory: Some(built.memory.clone()),
            options: request.job.options.clone(),
            actions: request.job.actions.clone(),
            model: outcome.model.clone(),
            phases: labelled.phases.clone(),
            generation,
            stops: outcome.stops.iter().map(|&(sequence, reason)| Stop { sequence, reason }).collect(),
            tables: table_facts(table_rows, trace_basis(record, labelled), built.kv_blocks.is_some()),
            time_resolution: time_resolution(record, labelled),
            experiment: request.experiment.clone(),
            collectors: CollectorFacts {
                used: collectors_used(record, labelled),
                fallbacks: fallbacks(record, labelled),
            },
            validity: validity(&effect, &telemetry, request.build.ignores_throttle),
            quality: quality(record, labelled, samples, metrics),
            telemetry,
            observer_effect: effect,
            build: request.build.clone(),
            graphs: labelled.graphs,
            graph_computations: labelled.steps,
            failure: outcome.failed.as_ref().map(|(message, _)| message.clone()).or(facts.worker_failure.clone()),
        }
    }
}

fn time_resolution(record: &RunRecord, labelled: &Labelled) -> Option<&'static str> {
    let hello = labelled.hello.as_ref().filter(|_| is_traced(record, labelled))?;
    TimeResolution::NAMES.get(usize::from(hello.resolution)).copied()
}

/// Whether graphs were recorded: a program that runs the model may be none into which the recorder can be loaded.
pub(crate) fn is_traced(record: &RunRecord, labelled: &Labelled) -> bool {
    let request = &record.request;
    request.is_traced && (request.job.engine.is_embedded() || labelled.graphs > 0)
}

/// Collectors that were wanted and did not work, those that were known before and those that a server showed.
fn fallbacks(record: &RunRecord, labelled: &Labelled) -> Vec<Fallback> {
    let mut fallbacks = record.request.fallbacks.clone();
    if record.request.is_traced && !is_traced(record, labelled) {
        let reason = labelled.outcome.server.as_ref().and_then(|server| server.untraced_because.clone());
        fallbacks.push(Fallback {
            wanted: "tensor_ops".to_owned(),
            instead: "process".to_owned(),
            reason: reason.unwrap_or_else(|| "the runtime computed no graph that the recorder saw".to_owned()),
        });
    }
    fallbacks
}

fn collectors_used(record: &RunRecord, labelled: &Labelled) -> Vec<&'static str> {
    let is_sampled = record.request.sample_interval_ms.is_some();
    let has_kv_events = record.request.job.server.kv_events.is_some();
    [(is_traced(record, labelled), "tensor_ops"), (is_sampled, "process"), (has_kv_events, KV_EVENTS_COLLECTOR)]
        .into_iter()
        .filter_map(|(is_used, name)| is_used.then_some(name))
        .collect()
}

/// `exact` if every rule was known, `inferred` if some operands were taken as touched in full, `none` without a trace.
fn trace_basis(record: &RunRecord, labelled: &Labelled) -> &'static str {
    let is_assumed = labelled.loss.iter().any(|row| row.kind == LossKind::GenericOpRule);
    match (is_traced(record, labelled), is_assumed) {
        (false, _) => "none",
        (true, true) => "inferred",
        (true, false) => "exact",
    }
}

fn table_facts(
    rows: &BTreeMap<&'static str, u64>,
    trace_basis: &'static str,
    has_kv_events: bool,
) -> BTreeMap<&'static str, TableFacts> {
    let facts = |(&name, &rows): (&&'static str, &u64)| {
        let (basis, source) = match name {
            // Blocks that a server told of take the place of traced ones.
            "kv_block_lifecycle" if has_kv_events => ("reported", KV_EVENTS_COLLECTOR),
            "memory" => ("sampled", "process"),
            "tokens" | "loss" => ("exact", "engine"),
            _ => (trace_basis, "tensor_ops"),
        };
        (name, TableFacts { rows, basis, source })
    };
    rows.iter().map(facts).collect()
}

/// Tokens that were decoded, not chosen from a prompt. A server may send several in one piece, and says how many it had.
fn decoded_tokens(labelled: &Labelled) -> u64 {
    let beyond_first = |request: &RequestSpan| request.timings.generated_tokens.unwrap_or(0).saturating_sub(1);
    labelled.decoded_tokens.max(labelled.outcome.requests.iter().map(beyond_first).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_a_server_told_of_are_not_called_traced() {
        let rows = BTreeMap::from([("kv_block_lifecycle", 7), ("trace", 0)]);
        let found = |has_kv_events| {
            let facts = table_facts(&rows, "none", has_kv_events);
            ["kv_block_lifecycle", "trace"].map(|name| (facts[name].basis, facts[name].source))
        };
        assert_eq!(found(true), [("reported", "kv_events"), ("none", "tensor_ops")]);
        assert_eq!(found(false), [("none", "tensor_ops"); 2]);
    }
}
