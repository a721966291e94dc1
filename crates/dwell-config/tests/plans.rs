//! The list of runs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::collections::BTreeSet;

use common::{LEAST, experiment};
use dwell_config::{Experiment, PlanError};
use dwell_events::Hint;
use dwell_events::engine::KvType;
use dwell_events::server::StartKind;
use proptest::prelude::*;
use proptest::sample::subsequence;

#[test]
fn runs_are_in_the_order_of_the_keys() {
    let text = "\
experiment: {name: x}
models: [{id: a, path: a}, {id: b, path: b}]
sweep: {context_lengths: [512, 256], kv_cache_types: [q8_0, f16], output_tokens: [8], repetitions: 2, warmup_runs: 1}
telemetry: {measure_slowdown: true}
";
    let plan = experiment(text).plan(3).unwrap();
    let names: Vec<(usize, String)> = plan.runs.iter().map(|run| (run.model_index, run.name())).collect();
    let mut wanted = Vec::new();
    for model in [0, 1] {
        for context in [512, 256] {
            for kv_type in ["q8_0", "f16"] {
                for kind in ["warmup1", "untraced1", "rep1", "rep2"] {
                    wanted.push((model, format!("ctx{context}_batch1_out8_{kv_type}_fa-on_t3_{kind}")));
                }
            }
        }
    }
    assert_eq!(names, wanted);
}

#[test]
fn cold_and_warm_are_runs_of_their_own() {
    let text = format!("{LEAST}sweep: {{starts: [as_found, cold, warm], threads: [1], output_tokens: [8]}}\n");
    let names: Vec<String> = experiment(&text).plan(3).unwrap().runs.iter().map(|run| run.name()).collect();
    let wanted = ["", "_cold", "_warm"].map(|start| format!("ctx2048_batch1_out8_f16_fa-on_t1{start}_rep1"));
    assert_eq!(names, wanted);
}

#[test]
fn too_many_runs_are_counted_and_not_built() {
    let mut all = experiment(LEAST);
    all.sweep.repetitions = 100_000;
    assert_eq!(all.plan(1).unwrap().runs.len(), 100_000);
    all.sweep.warmup_runs = 1;
    let error = all.plan(1).unwrap_err();
    assert_eq!(error, PlanError::TooManyRuns { found: 100_001 });
    assert_eq!(error.hints().len(), 1);
    (all.sweep.repetitions, all.sweep.warmup_runs) = (u32::MAX, u32::MAX);
    all.sweep.context_lengths = (1..=1_000_000).collect();
    assert_eq!(all.plan(1), Err(PlanError::TooManyRuns { found: 1_000_000 * 2 * u128::from(u32::MAX) }));
}

fn sweeps() -> impl Strategy<Value = Experiment> {
    let numbers = || prop::collection::btree_set(1u32..3000, 1..4).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let kinds = subsequence(KvType::ALL.to_vec(), 1..=3);
    let switches = subsequence(vec![true, false], 1..=2);
    let starts = subsequence(StartKind::ALL.to_vec(), 1..=3);
    let once = (starts, 1u32..4, 0u32..3, any::<bool>());
    (numbers(), numbers(), numbers(), kinds, switches, proptest::option::of(numbers()), once).prop_map(
        |(contexts, batches, outputs, kinds, switches, threads, (starts, repetitions, warmups, slowdown))| {
            let mut all = experiment(LEAST);
            let sweep = &mut all.sweep;
            (sweep.context_lengths, sweep.batch_sizes, sweep.output_tokens) = (contexts, batches, outputs);
            (sweep.kv_cache_types, sweep.flash_attention, sweep.threads) = (kinds, switches, threads);
            (sweep.starts, sweep.repetitions, sweep.warmup_runs) = (starts, repetitions, warmups);
            all.telemetry.measure_slowdown = slowdown;
            all
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_never_collide_and_the_count_is_right(all in sweeps()) {
        let plan = all.plan(4).unwrap();
        prop_assert_eq!(plan.runs.len() as u128, all.run_count());
        let names: BTreeSet<String> = plan.runs.iter().map(|run| run.name().to_lowercase()).collect();
        prop_assert_eq!(names.len(), plan.runs.len());
    }

    #[test]
    fn an_experiment_survives_json(all in sweeps()) {
        let text = serde_json::to_string(&all).unwrap();
        prop_assert_eq!(serde_json::from_str::<Experiment>(&text).unwrap(), all);
    }
}
