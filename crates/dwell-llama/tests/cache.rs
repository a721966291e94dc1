//! Context shifts, and removing, copying and shifting what is in the cache.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, generate, prompt, refuse, run};
use dwell_events::engine::{Action, EngineEvent, EngineOptions, KvType, StopReason};
use dwell_gguf::{MakeArchitecture, MakeSpec};
use dwell_llama::EngineError;

const TEXT: &str = "The capital of France is";

fn small_context(model: &TestModel) -> EngineOptions {
    EngineOptions { context_length: 256, ..model.options() }
}

fn shifts(events: &[EngineEvent]) -> usize {
    events.iter().filter(|event| matches!(event, EngineEvent::KvShifted { .. })).count()
}

/// Largest position of any computed token.
fn last_position(events: &[EngineEvent]) -> i32 {
    let positions = events.iter().filter_map(|event| match event {
        EngineEvent::BatchBegins { tokens, .. } => tokens.iter().map(|token| token.position).max(),
        _ => None,
    });
    positions.max().unwrap()
}

#[test]
fn a_full_context_ends_the_generation() {
    let model = TestModel::new();
    let told = run(small_context(&model), vec![prompt(TEXT, &[0]), generate(600, &[0])]);
    assert_eq!(told.stops(), [(0, StopReason::ContextFull)]);
    assert_eq!(last_position(&told.events), 255);
}

#[test]
fn a_context_shift_goes_on_past_the_context() {
    let model = TestModel::of(&MakeSpec { head_dim: Some(64), ..MakeSpec::default() });
    for kv_type in KvType::ALL {
        let mut options = small_context(&model);
        (options.context_shift, options.kv_type_k, options.kv_type_v) = (true, kv_type, kv_type);
        let told = run(options, vec![prompt(TEXT, &[0]), generate(600, &[0])]);
        assert_eq!(told.tokens(0).len(), 600);
        assert!(shifts(&told.events) >= 3);
        assert_eq!(last_position(&told.events), 255);
    }
}

#[test]
fn quantised_keys_of_small_heads_are_not_shifted() {
    // llama.cpp follows a null pointer when it shifts them.
    let model = TestModel::of(&MakeSpec { head_dim: Some(32), ..MakeSpec::default() });
    let mut options = small_context(&model);
    (options.context_shift, options.kv_type_k) = (true, KvType::Q8_0);
    let told = run(options.clone(), vec![prompt(TEXT, &[0]), generate(600, &[0])]);
    assert_eq!(told.stops(), [(0, StopReason::ContextFull)]);
    let shift = Action::Shift { sequence: 0, from: 0, to: -1, delta: 1 };
    let error = refuse(options, vec![prompt(TEXT, &[0]), shift, generate(1, &[0])]);
    assert!(matches!(error, EngineError::ShiftUnsupported { .. }), "{error}");
}

#[test]
fn a_context_shift_keeps_the_first_token() {
    let model = TestModel::new();
    let mut options = small_context(&model);
    options.context_shift = true;
    let told = run(options, vec![prompt(TEXT, &[0]), generate(300, &[0])]);
    let removed = told.events.iter().find(|event| matches!(event, EngineEvent::KvRemoved { .. })).unwrap();
    assert_eq!(*removed, EngineEvent::KvRemoved { sequence: 0, from: 1, to: 128 });
}

#[test]
fn streams_are_shifted_on_their_own_and_a_pool_as_a_whole() {
    let model = TestModel::new();
    for (kv_unified, context_length) in [(false, 512), (true, 256)] {
        let mut options = model.options();
        (options.context_length, options.parallel, options.kv_unified) = (context_length, 2, kv_unified);
        options.context_shift = true;
        let told = run(options, vec![prompt(TEXT, &[0, 1]), generate(400, &[0, 1])]);
        assert_eq!((told.tokens(0).len(), told.tokens(1).len()), (400, 400), "unified: {kv_unified}");
        assert!(shifts(&told.events) >= 2);
    }
}

#[test]
fn a_full_pool_ends_all_sequences() {
    let model = TestModel::new();
    let mut options = small_context(&model);
    (options.parallel, options.kv_unified) = (2, true);
    let told = run(options, vec![prompt(TEXT, &[0, 1]), generate(400, &[0, 1])]);
    assert_eq!(told.stops(), [(0, StopReason::ContextFull), (1, StopReason::ContextFull)]);
}

#[test]
fn a_later_prompt_can_shift_the_context_too() {
    let model = TestModel::new();
    let mut options = small_context(&model);
    let long = "word ".repeat(30);
    let actions = || vec![prompt(&long, &[0]), generate(1, &[0]), prompt(&long, &[0]), generate(5, &[0])];
    let error = refuse(options.clone(), actions());
    assert!(matches!(error, EngineError::PromptTooLong { .. }), "{error}");
    options.context_shift = true;
    assert_eq!(run(options, actions()).tokens(0).len(), 6);
}

#[test]
fn windows_that_cannot_be_shifted_end_the_generation() {
    let spec = MakeSpec { architecture: MakeArchitecture::Gemma3, window: Some(16), ..MakeSpec::default() };
    let model = TestModel::of(&spec);
    // So long that the windowed layers get a shorter cache, which llama.cpp cannot shift.
    let options = EngineOptions { context_length: 512, context_shift: true, ..model.options() };
    let actions = || vec![prompt(TEXT, &[0]), generate(600, &[0])];
    assert_eq!(run(options.clone(), actions()).stops(), [(0, StopReason::ContextFull)]);
    let full = EngineOptions { full_window_cache: true, ..options.clone() };
    assert_eq!(run(full, actions()).stops(), [(0, StopReason::MaxTokens)]);
    let shift = Action::Shift { sequence: 0, from: 1, to: -1, delta: 1 };
    let error = refuse(options, vec![prompt(TEXT, &[0]), shift, generate(1, &[0])]);
    assert!(matches!(error, EngineError::ShiftUnsupported { .. }), "{error}");
}

#[test]
fn a_copy_goes_on_as_its_source_would() {
    let model = TestModel::new();
    let alone = run(model.options(), vec![prompt(TEXT, &[0]), generate(10, &[0])]).tokens(0);
    for kv_unified in [false, true] {
        let mut options = model.options();
        (options.parallel, options.kv_unified) = (2, kv_unified);
        let copy = Action::Copy { source: 0, target: 1 };
        let actions = vec![prompt("Other", &[1]), prompt(TEXT, &[0]), copy, generate(10, &[0, 1])];
        let told = run(options, actions);
        assert_eq!(told.tokens(0), alone);
        assert_eq!(told.tokens(1), alone);
        assert!(told.events.contains(&EngineEvent::KvRemoved { sequence: 1, from: 0, to: -1 }));
        assert!(told.events.contains(&EngineEvent::KvCopied { source: 0, target: 1 }));
    }
}

#[test]
fn removing_everything_makes_a_fresh_start() {
    let model = TestModel::new();
    let fresh = run(model.options(), vec![prompt(TEXT, &[0]), generate(10, &[0])]).tokens(0);
    let remove = Action::Remove { sequence: 0, from: 0, to: -1 };
    let told = run(model.options(), vec![prompt("Other", &[0]), remove, prompt(TEXT, &[0]), generate(10, &[0])]);
    assert_eq!(told.tokens(0), fresh);
}

#[test]
fn a_gap_can_be_closed() {
    let model = TestModel::new();
    let remove = Action::Remove { sequence: 0, from: 2, to: 5 };
    let shift = Action::Shift { sequence: 0, from: 5, to: -1, delta: -3 };
    let told = run(model.options(), vec![prompt(TEXT, &[0]), remove, shift, generate(5, &[0])]);
    let [first, ..] = told
        .events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::BatchBegins { step: 1.., tokens, .. } => Some(tokens[0].position),
            _ => None,
        })
        .collect::<Vec<_>>()[..]
    else {
        panic!("no decode step")
    };
    let prompt_tokens = told.events.iter().find_map(|event| match event {
        EngineEvent::Prompt { tokens } => Some(tokens.len()),
        _ => None,
    });
    assert_eq!(first as usize, prompt_tokens.unwrap() - 3);
}

#[test]
fn what_would_confuse_the_cache_is_refused() {
    let model = TestModel::new();
    let mut options = model.options();
    (options.parallel, options.kv_unified) = (2, true);
    let refusal = |actions: Vec<Action>| {
        let mut all = vec![prompt(TEXT, &[0])];
        all.extend(actions);
        refuse(options.clone(), all)
    };
    let shift = |from, delta| Action::Shift { sequence: 0, from, to: -1, delta };
    let error = refusal(vec![Action::Copy { source: 0, target: 1 }, shift(2, 3)]);
    assert!(matches!(error, EngineError::ShiftOfSharedCells { sequence: 0 }), "{error}");
    let error = refusal(vec![shift(2, -1)]);
    assert!(matches!(error, EngineError::ShiftTarget { position: 1, .. }), "{error}");
    let error = refusal(vec![shift(0, -1)]);
    assert!(matches!(error, EngineError::ShiftTarget { position: -1, .. }), "{error}");
    let error = refusal(vec![shift(0, i32::MAX)]);
    assert!(matches!(error, EngineError::ShiftTarget { .. }), "{error}");
    let error = refusal(vec![Action::Remove { sequence: 0, from: 3, to: -1 }, generate(1, &[0])]);
    assert!(matches!(error, EngineError::NothingToContinue { sequence: 0 }), "{error}");
}
