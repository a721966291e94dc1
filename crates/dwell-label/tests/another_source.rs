//! A source of accesses that is not ggml's: samples with addresses and functions, labelled by the timeline of the engine
//! and by rules.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_events::engine::{BatchToken, EngineEvent};
use dwell_events::schema::trace::{TraceColumns, TraceRow};
use dwell_events::{LossKind, OpType, Phase, RegionType};
use dwell_label::regions::RegionPlace;
use dwell_label::timeline::Moment;
use dwell_label::{Labelling, LabellingEnd, Output, RuleSet, UnknownPolicy};

const SOURCE: &str = "made_up";
const RULES: &str = "version: 1
rules:
- {symbol: memcpy, phase: weight_load, region: weight}
- {symbol: reshape_and_cache, op: store, region: kv_cache}
";

/// Samples as a profiler gives them, between the events of an engine.
struct Samples {
    labelling: Labelling,
    out: Output,
}

impl Samples {
    fn new(policy: UnknownPolicy) -> Self {
        let mut labelling = Labelling::new(SOURCE);
        let rules = RuleSet::from_yaml(RULES, Path::new("rules.yaml")).unwrap();
        labelling.regions = labelling.regions.with_rules(rules, policy);
        Self { labelling, out: Output::new("run") }
    }

    fn event(&mut self, time_ns: u64, event: EngineEvent) -> &mut Self {
        let Labelling { timeline, loss, .. } = &mut self.labelling;
        timeline.event(event, time_ns, loss, &mut self.out);
        self
    }

    fn phase(&mut self, time_ns: u64, phase: Phase) -> &mut Self {
        self.event(time_ns, EngineEvent::PhaseBegins { phase })
    }

    fn batch(&mut self, time_ns: u64, step: u32, tokens: &[(i32, i32)]) -> &mut Self {
        let tokens = tokens.iter().map(|&(id, position)| BatchToken { id, position, sequence: 0 }).collect();
        self.event(time_ns, EngineEvent::BatchBegins { step, tokens, outputs: 1 })
    }

    /// An access of 8 bytes.
    fn sample(&mut self, timestamp_ns: u64, op_type: OpType, address: u64, symbol: &str) -> &mut Self {
        let Moment { phase, step, token_index, context_tokens } = self.labelling.timeline.now();
        let access = TraceRow {
            timestamp_ns,
            phase,
            step,
            token_index,
            context_tokens,
            address,
            size_bytes: 8,
            op_type,
            symbol,
            dso: "libtorch.so",
            access_latency_ns: Some(90),
            cache_level: Some("DRAM"),
            cpu_id: Some(3),
            source: SOURCE,
            period: 4000,
            ..TraceRow::EMPTY
        };
        self.labelling.regions.push(access, &mut self.out.trace);
        self
    }

    fn finish(self) -> (LabellingEnd, Output) {
        let Self { labelling, mut out } = self;
        (labelling.finish(&mut out), out)
    }
}

/// A weight is loaded; a prompt of two tokens and one decoded token read it and fill a cache.
fn run(policy: UnknownPolicy) -> (LabellingEnd, Output) {
    let mut samples = Samples::new(policy);
    samples
        .phase(10, Phase::WeightLoad)
        .sample(11, OpType::Store, 0x1000, "memcpy")
        .phase(20, Phase::Generation)
        .sample(21, OpType::Load, 0x9000, "poll")
        .batch(30, 0, &[(5, 0), (6, 1)])
        .sample(31, OpType::Load, 0x1010, "gemm")
        .sample(32, OpType::Store, 0x4000, "reshape_and_cache_kernel")
        .event(33, EngineEvent::BatchEnds { step: 0 })
        .event(34, EngineEvent::Token { step: 0, sequence: 0, position: Some(2), id: Some(7), text: "x".to_owned() })
        .batch(40, 1, &[(7, 2)])
        .sample(41, OpType::Load, 0x1020, "gemm")
        .event(42, EngineEvent::BatchEnds { step: 1 })
        .phase(50, Phase::Teardown);
    samples.finish()
}

#[test]
fn samples_get_phase_step_token_and_region() {
    let (end, mut out) = run(UnknownPolicy::Keep);
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let rows: Vec<TraceRow<'_>> = (0..columns.len()).map(|row| columns.row(row).unwrap()).collect();
    let when = |row: &TraceRow<'_>| (row.phase.unwrap(), row.step, row.token_index, row.context_tokens);
    let found: Vec<_> = rows.iter().map(when).collect();
    let expected = [
        (Phase::WeightLoad, None, None, None),
        (Phase::Generation, None, None, None),
        (Phase::Generation, Some(0), None, Some(2)),
        (Phase::Generation, Some(0), None, Some(2)),
        (Phase::Generation, Some(1), Some(3), Some(3)),
    ];
    assert_eq!(found, expected);
    let labels: Vec<_> = rows.iter().map(|row| (row.region_type, row.region_id)).collect();
    use RegionType::{KvCache, Unknown, Weight};
    assert_eq!(labels, [(Weight, 1), (Unknown, 0), (Weight, 1), (KvCache, 2), (Weight, 1)]);
    let seen = (Some(90), Some("DRAM"), Some(3), 4000, SOURCE);
    assert!(
        rows.iter().all(|row| { (row.access_latency_ns, row.cache_level, row.cpu_id, row.period, row.source) == seen })
    );

    let regions: Vec<_> =
        end.regions.iter().map(|row| (row.address, row.size_bytes, row.access_count, row.freed_ns)).collect();
    assert_eq!(regions, [(0x1000, 0x28, 3, Some(50)), (0x4000, 8, 1, Some(50))]);
    assert_eq!((end.loss.len(), end.timeline.decoded_tokens), (0, 0));
    let tokens: Vec<_> = out.tokens.iter().map(|row| (row.token_id, row.is_generated, row.kv_bytes)).collect();
    assert_eq!(tokens, [(Some(5), false, None), (Some(6), false, None), (Some(7), true, None)]);
}

#[test]
fn samples_that_nothing_labels_are_counted() {
    let (end, out) = run(UnknownPolicy::Skip);
    assert_eq!(out.trace.total_rows(), 4);
    let losses: Vec<_> = end.loss.iter().map(|row| (row.kind, row.source, row.count, row.bytes)).collect();
    assert_eq!(losses, [(LossKind::UnlabelledAccesses, "labeller", 1, Some(8))]);
}

#[test]
fn a_declared_region_is_not_asked_about() {
    let mut samples = Samples::new(UnknownPolicy::Error);
    let place = RegionPlace {
        region_type: RegionType::Activation,
        tensor: "hidden_states",
        layer: Some(3),
        address: 0x7000,
        size_bytes: 4096,
    };
    let label = samples.labelling.regions.declare(&place);
    let access = TraceRow {
        address: 0x7100,
        size_bytes: 64,
        region_type: label.region_type,
        region_id: label.id,
        tensor: &label.tensor,
        layer: label.layer,
        ..TraceRow::EMPTY
    };
    samples.labelling.regions.push(access, &mut samples.out.trace);
    assert!(samples.labelling.regions.unlabelled().is_none());
    let (end, _) = samples.finish();
    let found: Vec<_> = end.regions.iter().map(|row| (row.tensor.as_str(), row.size_bytes, row.bytes_read)).collect();
    assert_eq!(found, [("hidden_states", 4096, 64)]);
}
