//! The order of events, interruptions, and the hook.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::ffi::c_void;

use common::{TestModel, Told, generate, prompt, run};
use dwell_events::Phase;
use dwell_events::engine::{EngineEvent, Job, StopReason};
use dwell_events::server::BufferKind;
use dwell_llama::{Hooks, run_job};

const TEXT: &str = "The capital of France is";

/// Name of an event, with its step.
fn name(event: &EngineEvent) -> String {
    match event {
        EngineEvent::PhaseBegins { phase } => phase.name().to_owned(),
        EngineEvent::LoadProgress { .. } => "progress".to_owned(),
        EngineEvent::Loaded { .. } => "loaded".to_owned(),
        EngineEvent::MemoryReported { .. } => "memory".to_owned(),
        EngineEvent::Prompt { .. } => "prompt".to_owned(),
        EngineEvent::BatchBegins { step, outputs, .. } => format!("begins {step} outputs {outputs}"),
        EngineEvent::BatchEnds { step } => format!("ends {step}"),
        EngineEvent::Token { step, .. } => format!("token {step}"),
        EngineEvent::Stopped { .. } => "stopped".to_owned(),
        EngineEvent::Finished { .. } => "finished".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn events_come_in_order() {
    let model = TestModel::new();
    let mut options = model.options();
    (options.batch_size, options.micro_batch_size) = (16, 16);
    let told = run(options, vec![prompt(TEXT, &[0]), generate(2, &[0]), generate(1, &[0])]);
    let mut names: Vec<String> = told.events.iter().map(name).collect();
    assert_eq!(names[..2], ["weight_load", "progress"]);
    names.retain(|name| name != "progress");
    let expected = [
        "weight_load",
        "loaded",
        "memory",
        "generation",
        "prompt",
        "begins 0 outputs 0",
        "ends 0",
        "begins 0 outputs 1",
        "ends 0",
        "token 0",
        "begins 1 outputs 1",
        "ends 1",
        "token 1",
        "stopped",
        "begins 2 outputs 1",
        "ends 2",
        "token 2",
        "stopped",
        "teardown",
        "finished",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_buffers_of_weights_and_computation_are_told() {
    let model = TestModel::new();
    let told = run(model.options(), vec![prompt(TEXT, &[0])]);
    let buffers = told.events.iter().find_map(|event| match event {
        EngineEvent::MemoryReported { buffers } => Some(buffers),
        _ => None,
    });
    let bytes = |kind| buffers.unwrap().iter().filter(|buffer| buffer.kind == kind).map(|buffer| buffer.bytes).sum();
    // llama.cpp rounds to hundredths of a MiB, and a mapped buffer has the padding between tensors.
    let weights: u64 = bytes(BufferKind::Weights);
    assert!(weights.abs_diff(told.loaded().size_bytes) < 64 << 10, "{weights} of {}", told.loaded().size_bytes);
    let compute: u64 = bytes(BufferKind::Compute);
    assert!(compute > 0, "{buffers:?}");
    let cache: u64 = bytes(BufferKind::KvCache);
    assert_eq!(cache, 0, "its size is known exactly from the shape of the model");
}

#[test]
fn progress_rises_to_the_end_in_few_steps() {
    let model = TestModel::new();
    let told = run(model.options(), Vec::new());
    let fractions: Vec<f32> = told
        .events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::LoadProgress { fraction } => Some(*fraction),
            _ => None,
        })
        .collect();
    assert!(fractions.is_sorted() && fractions.len() <= 51, "{fractions:?}");
    assert_eq!(fractions.last(), Some(&1.0));
}

#[test]
fn tokens_have_the_position_that_they_are_computed_at() {
    let model = TestModel::new();
    let told = run(model.options(), vec![prompt(TEXT, &[0]), generate(5, &[0])]);
    let chosen: Vec<(i32, i32)> = told
        .events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::Token { id, position, .. } => id.zip(*position),
            _ => None,
        })
        .collect();
    let computed: Vec<(i32, i32)> = told
        .events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::BatchBegins { step: 1.., tokens, .. } => Some((tokens[0].id, tokens[0].position)),
            _ => None,
        })
        .collect();
    assert_eq!(chosen[..4], computed[..]);
}

#[test]
fn the_end_counts_tokens_and_times() {
    let model = TestModel::new();
    let mut options = model.options();
    options.parallel = 2;
    let told = run(options, vec![prompt(TEXT, &[0, 1]), generate(5, &[0, 1])]);
    let tokens_per_prompt = told.events.iter().find_map(|event| match event {
        EngineEvent::Prompt { tokens } => Some(tokens.len() as u64),
        _ => None,
    });
    let Some(&EngineEvent::Finished { prompt_tokens, prompt_ns, generated_tokens, decode_ns, .. }) = told.events.last()
    else {
        panic!("{:?}", told.events.last())
    };
    assert_eq!((Some(prompt_tokens), generated_tokens), (tokens_per_prompt.map(|tokens| tokens * 2), 10));
    assert!(prompt_ns > 0 && decode_ns > 0);
}

fn interrupted_after(events: usize) -> Told {
    let model = TestModel::new();
    let mut told = Told { interrupt_after: Some(events), ..Told::default() };
    let actions = vec![prompt(TEXT, &[0]), generate(100, &[0]), generate(100, &[0])];
    run_job(&Job::embedded(model.options(), actions), Hooks::default(), &mut told).unwrap();
    told
}

#[test]
fn an_interruption_while_generating_ends_with_a_teardown() {
    let uninterrupted = interrupted_after(usize::MAX).events.len();
    let told = interrupted_after(uninterrupted / 4);
    assert_eq!(told.stops(), [(0, StopReason::Interrupted)]);
    let [.., teardown, end] = &told.events[..] else { panic!("{:?}", told.events) };
    assert_eq!(*teardown, EngineEvent::PhaseBegins { phase: Phase::Teardown });
    assert!(matches!(end, EngineEvent::Finished { generated_tokens: 1.., .. }), "{end:?}");
}

#[test]
fn an_interruption_while_loading_ends_before_the_model_is_there() {
    let told = interrupted_after(1);
    let names: Vec<String> = told.events.iter().map(name).collect();
    assert_eq!(names.first().map(String::as_str), Some("weight_load"));
    assert!(!names.contains(&"loaded".to_owned()), "{names:?}");
    assert_eq!(names[names.len() - 2..], ["teardown", "finished"]);
}

struct HookCalls {
    calls: u64,
    abort_at: u64,
}

unsafe extern "C" fn count_call(data: *mut c_void) -> bool {
    // SAFETY: the test gives the counter, which outlives the job, and touches it only afterwards.
    let calls = unsafe { &mut *data.cast::<HookCalls>() };
    calls.calls += 1;
    calls.calls >= calls.abort_at
}

fn run_hooked(calls: &mut HookCalls, generated: u32) -> Told {
    let model = TestModel::new();
    let mut told = Told::default();
    let hooks =
        Hooks { after_node: Some(count_call), after_node_data: std::ptr::from_mut(calls).cast(), ..Hooks::default() };
    let actions = vec![prompt(TEXT, &[0]), generate(generated, &[0])];
    run_job(&Job::embedded(model.options(), actions), hooks, &mut told).unwrap();
    told
}

#[test]
fn the_hook_is_called_for_every_node() {
    let mut short = HookCalls { calls: 0, abort_at: u64::MAX };
    run_hooked(&mut short, 1);
    assert!(short.calls > 40, "{}", short.calls);
    let mut long = HookCalls { calls: 0, abort_at: u64::MAX };
    run_hooked(&mut long, 5);
    assert_eq!(long.calls, 5 * short.calls);
}

#[test]
fn the_hook_can_end_the_job() {
    let mut calls = HookCalls { calls: 0, abort_at: 200 };
    let told = run_hooked(&mut calls, 100);
    assert_eq!(told.stops(), [(0, StopReason::Interrupted)]);
    assert!(matches!(told.events.last(), Some(EngineEvent::Finished { .. })));
}
