//! Prompts, generation, sampling.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, generate, prompt, run};
use dwell_events::engine::{EngineEvent, KvType, StopReason};
use dwell_gguf::{MakeArchitecture, MakeSpec, WeightType};

const TEXT: &str = "The capital of France is";

fn one_sequence() -> Vec<dwell_events::engine::Action> {
    vec![prompt(TEXT, &[0]), generate(20, &[0])]
}

#[test]
fn greedy_generation_is_deterministic() {
    let model = TestModel::new();
    let tokens = run(model.options(), one_sequence()).tokens(0);
    assert_eq!(tokens.len(), 20);
    assert_eq!(tokens, run(model.options(), one_sequence()).tokens(0));
}

#[test]
fn drawing_depends_on_the_seed_only() {
    let model = TestModel::new();
    let draw = |seed| {
        let mut options = model.options();
        (options.temperature, options.seed) = (1.5, seed);
        run(options, one_sequence()).tokens(0)
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    assert_eq!(draw(u32::MAX), draw(u32::MAX));
}

#[test]
fn sequences_draw_differently() {
    let model = TestModel::new();
    let mut options = model.options();
    (options.temperature, options.parallel) = (1.5, 2);
    let told = run(options, vec![prompt(TEXT, &[0, 1]), generate(20, &[0, 1])]);
    assert_ne!(told.tokens(0), told.tokens(1));
}

#[test]
fn as_many_tokens_come_as_were_asked_for() {
    let model = TestModel::new();
    for max_tokens in [0, 1, 2, 7] {
        let told = run(model.options(), vec![prompt(TEXT, &[0]), generate(max_tokens, &[0])]);
        assert_eq!(told.tokens(0).len(), max_tokens as usize);
        assert_eq!(told.stops(), [(0, StopReason::MaxTokens)]);
    }
}

#[test]
fn generation_in_two_parts_is_the_same_as_in_one() {
    let model = TestModel::new();
    let whole = run(model.options(), one_sequence());
    let parts = run(model.options(), vec![prompt(TEXT, &[0]), generate(8, &[0]), generate(12, &[0])]);
    assert_eq!(whole.tokens(0), parts.tokens(0));
}

#[test]
fn a_prompt_in_small_batches_gives_the_same_as_in_one() {
    let model = TestModel::new();
    let whole = run(model.options(), one_sequence());
    let mut options = model.options();
    (options.batch_size, options.micro_batch_size) = (5, 2);
    assert_eq!(whole.tokens(0), run(options, one_sequence()).tokens(0));
}

#[test]
fn two_sequences_get_the_same_from_the_same_prompt_in_both_kinds_of_cache() {
    let model = TestModel::new();
    let alone = run(model.options(), one_sequence()).tokens(0);
    for kv_unified in [false, true] {
        let mut options = model.options();
        (options.parallel, options.kv_unified) = (2, kv_unified);
        (options.batch_size, options.micro_batch_size) = (7, 3);
        let told = run(options, vec![prompt(TEXT, &[0, 1]), generate(20, &[0, 1])]);
        assert_eq!(told.tokens(0), alone, "unified: {kv_unified}");
        assert_eq!(told.tokens(1), alone, "unified: {kv_unified}");
        let expected = if kv_unified { 512 } else { 256 };
        assert_eq!(told.loaded().context_per_sequence, expected);
    }
}

#[test]
fn a_sequence_that_ends_early_leaves_the_others_going() {
    let model = TestModel::new();
    let mut options = model.options();
    options.parallel = 2;
    let actions = vec![prompt(TEXT, &[0]), generate(3, &[0]), prompt("Other", &[1]), generate(9, &[1, 0])];
    let told = run(options, actions);
    assert_eq!((told.tokens(0).len(), told.tokens(1).len()), (12, 9));
}

#[test]
fn other_settings_work_too() {
    let model = TestModel::of(&MakeSpec { head_dim: Some(64), ..MakeSpec::default() });
    for (kv_type, flash_attention, mmap, repack) in
        [(KvType::Q8_0, true, true, false), (KvType::Q4_0, true, false, true), (KvType::F16, false, false, false)]
    {
        let mut options = model.options();
        (options.kv_type_k, options.kv_type_v) = (kv_type, kv_type);
        (options.flash_attention, options.mmap, options.repack) = (flash_attention, mmap, repack);
        assert_eq!(run(options, one_sequence()).tokens(0).len(), 20);
    }
}

#[test]
fn models_with_experts_and_windows_generate() {
    let experts = MakeSpec { experts: 8, experts_used: 2, ..MakeSpec::default() };
    let windows =
        MakeSpec { architecture: MakeArchitecture::Gemma3, window: Some(16), layers: 4, ..MakeSpec::default() };
    for spec in [experts, windows] {
        let model = TestModel::of(&spec);
        let told = run(model.options(), one_sequence());
        assert_eq!(told.tokens(0).len(), 20);
        assert_eq!(told.loaded().sliding_window, spec.window.unwrap_or(0));
    }
}

#[test]
fn repacked_weights_give_almost_the_same_model() {
    let spec = MakeSpec { weight_type: WeightType::Q4_0, embedding: 256, feed_forward: 512, ..MakeSpec::default() };
    let model = TestModel::of(&spec);
    let mut options = model.options();
    options.repack = true;
    assert_eq!(run(options, one_sequence()).tokens(0).len(), 20);
}

#[test]
fn what_was_loaded_is_told() {
    let model = TestModel::new();
    let told = run(model.options(), Vec::new());
    let loaded = told.loaded();
    assert_eq!((loaded.layers, loaded.vocabulary, loaded.context_length), (4, 512, 512));
    assert!(loaded.runtime.starts_with("llama.cpp "), "{}", loaded.runtime);
    assert!(loaded.system_info.contains("CPU"), "{}", loaded.system_info);
    assert_eq!(loaded.threads, 1);
    assert!(loaded.description.contains("llama"), "{}", loaded.description);
}

#[test]
fn the_text_of_the_tokens_is_the_prompt() {
    let model = TestModel::new();
    let text = "Grüße, €5 – 日本 🎉";
    let told = run(model.options(), vec![prompt(text, &[0])]);
    let tokens = told.events.iter().find_map(|event| match event {
        EngineEvent::Prompt { tokens } => Some(tokens),
        _ => None,
    });
    let joined: String = tokens.unwrap().iter().map(|(_, text)| text.as_str()).collect();
    assert!(joined.ends_with(text), "{joined:?}");
}
