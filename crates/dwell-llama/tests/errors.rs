//! What cannot be done is refused with a reason, and never by ending the process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, Told, generate, options, prompt, refuse, run};
use dwell_events::engine::{Action, EngineEvent, EngineOptions, Job, KvType};
use dwell_events::{Hint, Phase};
use dwell_gguf::MakeSpec;
use dwell_llama::{EngineError, Hooks, run_job};

const TEXT: &str = "The capital of France is";

type Change = fn(&mut EngineOptions);

fn refuse_options(change: impl FnOnce(&mut EngineOptions)) -> EngineError {
    // The options are looked at before the file, so it need not be there.
    let mut options = options("/nonexistent/model.gguf".as_ref());
    change(&mut options);
    refuse(options, Vec::new())
}

#[test]
fn options_that_must_not_be_zero() {
    let changes: [(&str, Change); 5] = [
        ("context_length", |options| options.context_length = 0),
        ("threads", |options| options.threads = 0),
        ("batch_size", |options| options.batch_size = 0),
        ("micro_batch_size", |options| options.micro_batch_size = 0),
        ("parallel", |options| options.parallel = 0),
    ];
    for (name, change) in changes {
        let error = refuse_options(change);
        assert!(matches!(error, EngineError::OptionIsZero { option } if option == name), "{error}");
        assert_eq!(error.hints(), [format!("--{} 1 or more", name.replace('_', "-"))]);
    }
}

#[test]
fn options_that_are_too_large() {
    let changes: [(&str, u64, Change); 6] = [
        ("context_length", 1 << 30, |options| options.context_length = u32::MAX),
        ("threads", 512, |options| options.threads = 513),
        ("micro_batch_size", 64, |options| options.micro_batch_size = 65),
        ("parallel", 256, |options| (options.parallel, options.batch_size) = (257, 512)),
        ("parallel", 64, |options| options.parallel = 65),
        ("parallel", 8, |options| (options.parallel, options.context_length) = (9, 8)),
    ];
    for (name, most, change) in changes {
        let error = refuse_options(change);
        let is_expected =
            matches!(error, EngineError::OptionTooLarge { option, limit, .. } if option == name && limit == most);
        assert!(is_expected, "{error}");
    }
}

#[test]
fn temperatures_and_types_that_do_not_work() {
    for wrong in [-0.5, f32::NAN, f32::INFINITY] {
        let error = refuse_options(|options| options.temperature = wrong);
        assert!(matches!(error, EngineError::Temperature { .. }), "{error}");
    }
    let error = refuse_options(|options| (options.kv_type_v, options.flash_attention) = (KvType::Q8_0, false));
    assert_eq!(
        error.to_string(),
        "checking the options: kv_type_v is q8_0 without flash attention, f16 is needed then"
    );
}

#[test]
fn actions_that_make_no_sense() {
    let refusal = |action| refuse(options("/nonexistent/model.gguf".as_ref()), vec![prompt(TEXT, &[0]), action]);
    let error = refusal(generate(1, &[]));
    assert!(matches!(error, EngineError::NoSequences { action: 2 }), "{error}");
    for wrong in [1, -1] {
        let error = refusal(generate(1, &[wrong]));
        assert!(matches!(error, EngineError::UnknownSequence { sequence, .. } if sequence == wrong), "{error}");
    }
    let error = refusal(prompt(TEXT, &[0, 0]));
    assert!(matches!(error, EngineError::RepeatedSequence { sequence: 0, .. }), "{error}");
    let error = refusal(Action::Copy { source: 0, target: 0 });
    assert!(matches!(error, EngineError::CopyOntoItself { .. }), "{error}");
    for (from, to) in [(-1, 3), (3, 2)] {
        let error = refusal(Action::Remove { sequence: 0, from, to });
        assert!(matches!(error, EngineError::PositionRange { .. }), "{error}");
    }
}

#[test]
fn files_that_are_no_models() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let refusal = || refuse(options(&path), Vec::new());

    let error = refusal();
    assert!(matches!(error, EngineError::ModelUnreadable { .. }), "{error}");
    assert!(error.to_string().ends_with(&format!("{path:?}")), "{error}");
    for (content, found) in [(&b""[..], ""), (b"GG", "GG"), (b"PK\x03\x04zip", "PK\\x03\\x04")] {
        std::fs::write(&path, content).unwrap();
        let error = refusal();
        assert!(matches!(&error, EngineError::NotGguf { found: text, .. } if text == found), "{error}");
    }
    std::fs::write(&path, "GGUF").unwrap();
    let error = refusal();
    assert!(matches!(error, EngineError::ModelIncomplete { .. }), "{error}");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = refusal();
    assert!(matches!(error, EngineError::ModelNotAFile { found: "a folder", .. }), "{error}");
}

#[test]
fn a_model_that_is_larger_than_memory_must_be_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, "GGUF").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
    let error = refuse(EngineOptions { mmap: false, ..options(&path) }, Vec::new());
    assert!(matches!(error, EngineError::ModelMemory { needed_bytes: 0x400_0000_0000, .. }), "{error}");
}

#[test]
fn broken_models() {
    let model = TestModel::new();
    let file_bytes = std::fs::metadata(&model.path).unwrap().len();
    std::fs::File::options().write(true).open(&model.path).unwrap().set_len(file_bytes - 100).unwrap();
    let error = refuse(model.options(), Vec::new());
    assert!(matches!(error, EngineError::ModelIncomplete { .. }), "{error}");

    let model = TestModel::new();
    // The name of the architecture is also in front of other keys: those stay.
    assert_eq!(model.patch(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0lamax"), 2);
    let error = refuse(model.options(), Vec::new());
    assert!(
        matches!(&error, EngineError::UnknownArchitecture { architecture, .. } if architecture == "lamax"),
        "{error}"
    );

    let model = TestModel::new();
    assert_eq!(model.patch(b"GGUF\x03", b"GGUF\x63"), 1);
    let error = refuse(model.options(), Vec::new());
    assert!(matches!(&error, EngineError::ModelRefused { reason, .. } if reason.contains("version 99")), "{error}");

    let model = TestModel::new();
    assert!(model.patch(b"llama.block_count", b"llama.block_xxxxx") == 1);
    let error = refuse(model.options(), Vec::new());
    assert!(matches!(&error, EngineError::ModelRefused { reason, .. } if reason.contains("block_count")), "{error}");
}

#[test]
fn a_context_that_is_larger_than_memory() {
    let model = TestModel::new();
    let error = refuse(EngineOptions { context_length: 1 << 30, ..model.options() }, Vec::new());
    let EngineError::ContextMemory { context_length, needed_bytes, available_bytes, fitting_context_length } = error
    else {
        panic!("{error}")
    };
    // 4 layers, 2 heads of 16 values for keys and values, 2 bytes each, and 48 bytes of bookkeeping.
    assert_eq!((context_length, needed_bytes), (1 << 30, (1 << 30) * (4 * 2 * 16 * 2 * 2 + 48)));
    assert!(fitting_context_length < context_length && fitting_context_length * 560 <= available_bytes);
}

#[test]
fn heads_that_are_no_whole_blocks() {
    let model = TestModel::of(&MakeSpec { head_dim: Some(24), ..MakeSpec::default() });
    let changes: [(&str, Change); 3] = [
        ("key", |options| options.kv_type_k = KvType::Q8_0),
        ("value", |options| options.kv_type_v = KvType::Q4_0),
        // Without flash attention llama.cpp does not check the keys and aborts.
        ("key", |options| (options.kv_type_k, options.flash_attention) = (KvType::Q8_0, false)),
    ];
    for (name, change) in changes {
        let mut options = model.options();
        change(&mut options);
        let error = refuse(options, Vec::new());
        assert!(matches!(error, EngineError::KvBlock { part, head_size: 24, .. } if part == name), "{error}");
        assert_eq!(error.hints(), [format!("--kv-type-{} f16", &name[..1])]);
    }
}

fn tokens_of(model: &TestModel, text: &str) -> usize {
    let told = run(model.options(), vec![prompt(text, &[0])]);
    let Some(EngineEvent::Finished { prompt_tokens, .. }) = told.events.last() else { panic!("no end") };
    *prompt_tokens as usize
}

#[test]
fn prompts_that_do_not_fit() {
    let model = TestModel::new();
    let refusal = |options, text: &str| refuse(options, vec![prompt(text, &[0])]);
    let error = refusal(model.options(), &"word ".repeat(1000));
    let EngineError::PromptTooLong { needed, available: 512, context_length: 512, .. } = error else {
        panic!("{error}")
    };
    assert!(needed > 1000);
    // The longest prompt that fits does.
    let tokens_besides = tokens_of(&model, "\u{1}") - 1;
    let longest = "\u{1}".repeat(512 - tokens_besides);
    assert_eq!(tokens_of(&model, &longest), 512);
    let error = refusal(model.options(), &format!("{longest}\u{1}"));
    assert!(matches!(error, EngineError::PromptTooLong { needed: 513, .. }), "{error}");
    let shifting = EngineOptions { context_shift: true, ..model.options() };
    let error = refusal(shifting, &format!("{longest}\u{1}"));
    assert!(error.hints().iter().any(|hint| hint.contains("--context-shift does not help")));
}

#[test]
fn prompts_without_tokens_and_generation_without_prompts() {
    let model = TestModel::new();
    // At the start of a sequence there is the model's first token, later there is nothing.
    run(model.options(), vec![prompt("", &[0]), generate(1, &[0])]);
    let error = refuse(model.options(), vec![prompt("", &[0]), prompt("", &[0])]);
    assert!(matches!(error, EngineError::EmptyPrompt { sequence: 0 }), "{error}");
    let error = refuse(model.options(), vec![generate(1, &[0])]);
    assert!(matches!(error, EngineError::NothingToContinue { sequence: 0 }), "{error}");
}

#[test]
fn a_chat_template_that_is_not_there() {
    let model = TestModel::new();
    let error = refuse(EngineOptions { chat_template: true, ..model.options() }, vec![prompt(TEXT, &[0])]);
    assert!(matches!(error, EngineError::NoChatTemplate), "{error}");
}

#[test]
fn text_that_the_vocabulary_cannot_express() {
    let model = TestModel::new();
    assert_eq!(model.patch(b"<0xF0>", b"<yyyy>"), 1);
    run(model.options(), vec![prompt(TEXT, &[0])]);
    let error = refuse(model.options(), vec![prompt("party 🎉", &[0])]);
    assert!(matches!(error, EngineError::NoTokenFor { character: '🎉' }), "{error}");
}

#[test]
fn weights_that_give_no_numbers() {
    let model = TestModel::new();
    let mut bytes = std::fs::read(&model.path).unwrap();
    let weights = bytes.len() - 1000;
    bytes[weights..].fill(0xFF);
    std::fs::write(&model.path, bytes).unwrap();
    for temperature in [0.0, 1.0] {
        let options = EngineOptions { temperature, ..model.options() };
        let error = refuse(options, vec![prompt(TEXT, &[0]), generate(3, &[0])]);
        assert!(matches!(error, EngineError::UnusableLogits { found: "NaN", .. }), "{error}");
    }
}

#[test]
fn an_error_comes_after_the_teardown_and_without_an_end() {
    let model = TestModel::new();
    let mut told = Told::default();
    let job = Job::embedded(model.options(), vec![generate(1, &[0])]);
    run_job(&job, Hooks::default(), &mut told).unwrap_err();
    assert_eq!(told.events.last(), Some(&EngineEvent::PhaseBegins { phase: Phase::Teardown }));
    let mut told = Told::default();
    let job = Job::embedded(options("/nonexistent/model.gguf".as_ref()), Vec::new());
    run_job(&job, Hooks::default(), &mut told).unwrap_err();
    assert!(told.events.is_empty());
}
