//! What `metadata.json` says about a run that was recorded.

use std::collections::BTreeMap;

use dwell_analysis::MetricsReport;
use dwell_collectors::{BuiltTable, collector, refusal, replaced};
use dwell_events::engine::{TimeResolution, WorkTotals};
use dwell_events::{CollectorName, LossKind, RequestSpan};
use dwell_label::Labelled;
use dwell_metadata::{
    CollectorAbout, CollectorUse, Generation, ObserverEffect, RefusedAt, RunMetadata, RunRecord, RunRequest, Stop,
    TableOrigin, Telemetry,
};
use dwell_process::own_peak_rss_bytes;
use dwell_store::{RunDir, utc_text};

use crate::build::Built;
use crate::judgement::{quality, validity};

/// The metadata of a run whose records were labelled.
pub(crate) fn run_metadata(
    run: &RunDir,
    built: &Built<'_>,
    metrics: &MetricsReport,
    table_rows: &BTreeMap<&'static str, u64>,
) -> RunMetadata {
    let Built { record, facts, labelled, samples, .. } = built;
    let (request, outcome) = (&record.request, &labelled.outcome);
    let seen = built.memory.timings.client;
    let generation = outcome.finished.map(|finished| generation(finished, labelled).or_as_seen(&seen));
    let telemetry = Telemetry { baseline: record.baseline.clone(), sensors: facts.sensors.clone() };
    let untraced = request.untraced.as_ref();
    let peak = outcome.peak_rss_bytes;
    let processes = (samples.worker, samples.observer);
    let effect = ObserverEffect {
        observer_peak_rss_bytes: own_peak_rss_bytes(),
        ..ObserverEffect::of(processes, peak, facts.worker_blocked_ns, generation.as_ref(), untraced)
    };
    RunMetadata {
        run_id: run.run_id().to_owned(),
        started_at_utc: utc_text(record.clock.unix_ns / 1_000_000_000),
        dwell_version: record.dwell_version.clone(),
        clock: Some(record.clock),
        host: Some(record.host.clone()),
        server: outcome.server.clone(),
        requests: outcome.requests.clone(),
        page_cache: record.page_cache,
        kv_blocks: built.kv_blocks.clone(),
        agreements: built.agreements.clone(),
        energy: built.energy.clone(),
        memory: Some(built.memory.clone()),
        model: outcome.model.clone(),
        phases: labelled.phases.clone(),
        generation,
        stops: outcome.stops.iter().map(|&(sequence, reason)| Stop { sequence, reason }).collect(),
        tables: table_origins(table_rows, trace_basis(record, labelled), built.collected_tables),
        time_resolution: time_resolution(record, labelled),
        collectors: collectors(record, labelled),
        validity: Some(validity(&effect, &telemetry, &record.host, request.build.ignores_throttle)),
        quality: Some(quality(record, labelled, (samples, built.collected_tables, built.given), metrics)),
        telemetry,
        observer_effect: Some(effect),
        processes: labelled.processes.clone(),
        graphs: labelled.graphs,
        graph_computations: labelled.steps,
        kv_accesses: is_traced(record, labelled).then_some(labelled.kv_accesses),
        failure_hints: outcome.failed.iter().flat_map(|(_, hints)| hints.clone()).collect(),
        failure: outcome.failed.as_ref().map(|(message, _)| message.clone()).or(facts.worker_failure.clone()),
        ..RunMetadata::of_request(request)
    }
}

fn time_resolution(record: &RunRecord, labelled: &Labelled) -> Option<TimeResolution> {
    let hello = labelled.hello.as_ref().filter(|_| is_traced(record, labelled))?;
    TimeResolution::ALL.get(usize::from(hello.resolution)).copied()
}

/// Whether graphs were recorded: a program that runs the model may be none into which the recorder can be loaded.
pub(crate) fn is_traced(record: &RunRecord, labelled: &Labelled) -> bool {
    let request = &record.request;
    request.collectors.has(CollectorName::TENSOR_OPS) && (request.job.engine.is_embedded() || labelled.graphs > 0)
}

/// What watched the run, and what was wanted and could not: what was known before, and what a server showed.
fn collectors(record: &RunRecord, labelled: &Labelled) -> CollectorUse {
    let request = &record.request;
    let found = collector_use(&collectors_used(record, labelled), request);
    if !request.collectors.has(CollectorName::TENSOR_OPS) || is_traced(record, labelled) {
        return found;
    }
    let reason = labelled.outcome.server.as_ref().and_then(|server| server.untraced_because.clone());
    let reason = reason.unwrap_or_else(|| "the runtime computed no graph that the recorder saw".to_owned());
    saw_nothing(found, reason)
}

/// That the recorder saw no access. Samples of the memory take its place, if there are any.
fn saw_nothing(mut found: CollectorUse, reason: String) -> CollectorUse {
    let (wanted, instead) = (CollectorName::TENSOR_OPS, CollectorName::PROCESS);
    if found.used.iter().any(|name| name == instead.name()) {
        found.fallbacks.push(replaced(wanted, instead, reason.clone()));
    }
    found.refusals.push(refusal(wanted, RefusedAt::Run, reason));
    found
}

/// These collectors, with what each says of itself.
fn collector_use(used: &[CollectorName], request: &RunRequest) -> CollectorUse {
    CollectorUse { fallbacks: request.fallbacks.clone(), refusals: request.refusals.clone(), ..collectors_about(used) }
}

/// These collectors, of which none was refused.
pub(crate) fn collectors_about(used: &[CollectorName]) -> CollectorUse {
    let about = |name: &CollectorName| {
        let description = collector(*name).description();
        let about = CollectorAbout { basis: description.basis.name().to_owned(), cost: description.cost.to_owned() };
        (name.name().to_owned(), about)
    };
    CollectorUse {
        used: used.iter().map(|name| name.name().to_owned()).collect(),
        about: used.iter().map(about).collect(),
        ..CollectorUse::default()
    }
}

fn collectors_used(record: &RunRecord, labelled: &Labelled) -> Vec<CollectorName> {
    let is_used = |name: &CollectorName| match *name {
        CollectorName::TENSOR_OPS => is_traced(record, labelled),
        name => record.request.collectors.has(name),
    };
    CollectorName::all().filter(is_used).collect()
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

fn table_origins(
    rows: &BTreeMap<&'static str, u64>,
    trace_basis: &'static str,
    collected: &[BuiltTable],
) -> BTreeMap<String, TableOrigin> {
    let origin = |(&name, &rows): (&&'static str, &u64)| {
        let (basis, source) = match name {
            "tokens" | "loss" => ("exact", "engine"),
            _ => (trace_basis, CollectorName::TENSOR_OPS.name()),
        };
        (name.to_owned(), TableOrigin { rows, basis: basis.to_owned(), source: source.to_owned() })
    };
    let of_collector = |built: &BuiltTable| {
        let (basis, source) = (built.basis.name().to_owned(), built.source.name().to_owned());
        (built.table.name().to_owned(), TableOrigin { rows: built.rows, basis, source })
    };
    rows.iter().map(origin).chain(collected.iter().map(of_collector)).collect()
}

/// The totals that the driver told; what was reused follows from the requests, if any was seen.
fn generation(finished: WorkTotals, labelled: &Labelled) -> Generation {
    let reused = labelled.outcome.requests.iter().filter_map(RequestSpan::reused).reduce(u64::saturating_add);
    let cached_tokens = reused.unwrap_or(finished.cached_tokens);
    Generation::of(WorkTotals { cached_tokens, ..finished }, decoded_tokens(labelled))
}

/// Tokens that were decoded, not chosen from a prompt. A server may send several in one piece, and says how many it had.
fn decoded_tokens(labelled: &Labelled) -> u64 {
    let beyond_first = |request: &RequestSpan| request.timings.generated_tokens.unwrap_or(0).saturating_sub(1);
    labelled.decoded_tokens.max(labelled.outcome.requests.iter().map(beyond_first).sum())
}

#[cfg(test)]
mod tests {
    use dwell_events::Basis;
    use dwell_events::schema::Table;

    use super::*;

    #[test]
    fn every_collector_that_was_used_states_its_basis_and_cost() {
        let found = collectors_about(&[CollectorName::TENSOR_OPS, CollectorName::KV_EVENTS]);
        assert_eq!(found.used, ["tensor_ops", "kv_events"]);
        assert_eq!(found.about.len(), 2);
        assert_eq!(found.about["tensor_ops"].basis, "exact");
        let cost = collector(CollectorName::KV_EVENTS).description().cost;
        assert_eq!(
            (found.about["kv_events"].basis.as_str(), found.about["kv_events"].cost.as_str()),
            ("reported", cost)
        );
    }

    #[test]
    fn samples_take_the_place_of_a_trace_without_an_access_only_where_there_are_some() {
        let of = |used: &[CollectorName]| saw_nothing(collectors_about(used), "it is elsewhere".to_owned());
        let found = of(&[CollectorName::PROCESS]);
        assert_eq!((found.refusals[0].at, found.refusals[0].collector.as_str()), (RefusedAt::Run, "tensor_ops"));
        assert_eq!(found.fallbacks[0].instead, "process");
        let found = of(&[CollectorName::KV_EVENTS]);
        assert_eq!((found.refusals.len(), found.fallbacks.len()), (1, 0));
    }

    #[test]
    fn blocks_that_a_server_told_of_are_not_called_traced() {
        let traced = BTreeMap::from([("kv_block_lifecycle", 7), ("trace", 0)]);
        let told = BuiltTable {
            table: Table::KvBlockLifecycle,
            rows: 5,
            basis: Basis::Reported,
            source: CollectorName::KV_EVENTS,
        };
        let origin = |rows, basis: &str, source: &str| TableOrigin { rows, basis: basis.into(), source: source.into() };
        let found = |rows, collected: &[BuiltTable]| {
            let origins = table_origins(rows, "none", collected);
            ["kv_block_lifecycle", "trace"].map(|name| origins[name].clone())
        };
        let untraced = BTreeMap::from([("trace", 0)]);
        let trace = origin(0, "none", "tensor_ops");
        assert_eq!(found(&untraced, &[told]), [origin(5, "reported", "kv_events"), trace.clone()]);
        assert_eq!(found(&traced, &[]), [origin(7, "none", "tensor_ops"), trace]);
    }
}
