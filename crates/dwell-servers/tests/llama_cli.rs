//! A real llama-completion, started once for each request.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod llama;

use dwell_events::engine::{Action, EngineEvent, EngineKind, StopReason};
use dwell_events::server::{Api, BufferKind};
use dwell_gguf::MakeSpec;
use llama::{OwnServer, Told, Workplace, generate, job, llama_program, prompt, run, trained_model};
use serde_json::json;

/// Whether a program ended before its last words were out, which it does one time in ten.
fn was_cut(told: &Told) -> bool {
    let is_cut = |event: &EngineEvent| match event {
        EngineEvent::ServerMetrics { values } => values.get("llama_cli:output_was_cut") == Some(&1.0),
        _ => false,
    };
    told.0.iter().any(is_cut)
}

/// Does a job until its texts are whole.
fn run_to_the_last_word(place: &Workplace, job: &dwell_events::engine::Job) -> Told {
    for _ in 0..50 {
        let told = run(place.place(), job);
        if !was_cut(&told) {
            return told;
        }
    }
    panic!("the program never wrote its text to the end");
}

#[test]
fn a_program_is_told_of_in_order_for_each_request() {
    let Some(program) = llama_program("a_program_is_told_of_in_order_for_each_request", "llama-completion") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let actions = vec![prompt("abc", &[0]), generate(6, &[0]), prompt(" d", &[0]), generate(2, &[0])];
    let told = run_to_the_last_word(&place, &job(EngineKind::LlamaCli, &program, &model, actions));
    let once = [
        "phase_begins",
        "request_begins",
        "process_found",
        "memory_reported",
        "serving",
        "loaded",
        "phase_begins",
        "token",
        "request_ends",
        "stopped",
    ];
    let order: Vec<String> = told.order().into_iter().filter(|name| name != "server_metrics").collect();
    assert_eq!(order[..10], once);
    assert_eq!(order[10..13], ["phase_begins", "request_begins", "process_found"], "loaded anew");
    let [first, second] = told.timings()[..] else { panic!("{:?}", told.timings()) };
    assert_eq!((first.prompt_tokens, first.generated_tokens, second.generated_tokens), (Some(4), Some(6), Some(2)));
    assert!(second.prompt_tokens > first.prompt_tokens, "with the answer and the new prompt");
    assert!(first.load_ns.unwrap() > 0 && first.prompt_ns.unwrap() > 0);
    assert_eq!(told.reasons(), [(0, StopReason::MaxTokens), (0, StopReason::MaxTokens)]);
    assert_eq!(told.pids().len(), 2);
    assert!(told.pids().iter().all(|&pid| llama::is_gone(pid)));
    assert_eq!(told.facts().context_length, Some(512));
    let kinds: Vec<BufferKind> = told
        .0
        .iter()
        .find_map(|event| match event {
            EngineEvent::MemoryReported { buffers } => Some(buffers.iter().map(|buffer| buffer.kind).collect()),
            _ => None,
        })
        .unwrap();
    assert!(kinds.contains(&BufferKind::Weights) && kinds.contains(&BufferKind::KvCache), "{kinds:?}");
    assert!(
        std::fs::read_dir(place.path()).unwrap().flatten().all(|file| !is_prompt(&file)),
        "no prompt is left behind"
    );
}

fn is_prompt(file: &std::fs::DirEntry) -> bool {
    file.file_name().to_string_lossy().starts_with("prompt-")
}

#[test]
fn a_program_is_recorded_from_within() {
    let name = "a_program_is_recorded_from_within";
    let Some(program) = llama_program(name, "llama-completion") else { return };
    let place = Workplace::new();
    let Some(recorded) = place.recorded(name) else { return };
    let model = place.model(MakeSpec::default());
    let asked = job(EngineKind::LlamaCli, &program, &model, vec![prompt("abc", &[0]), generate(3, &[0])]);
    let told = run(recorded.clone(), &asked);
    assert_eq!(told.facts().untraced_because, None);
    assert!(recorded.ring_dir.unwrap().join(format!("{}.ring", told.pids()[0])).exists());
}

#[test]
fn the_program_and_the_server_give_the_same_text() {
    let name = "the_program_and_the_server_give_the_same_text";
    let (Some(program), Some(server)) = (llama_program(name, "llama-completion"), llama_program(name, "llama-server"))
    else {
        return;
    };
    let Some(model) = trained_model(name) else { return };
    // Escapes, quotes and newlines at the end are text like any other.
    let text = "A list:\n\n1. \\n \"first\" – ü\n2.\n";
    let server = OwnServer::start(&server, &model, &[]);
    let plain =
        server.ask("/completion", &json!({ "prompt": text, "n_predict": 12, "temperature": 0, "ignore_eos": true }));
    let place = Workplace::new();
    let asked = job(EngineKind::LlamaCli, &program, &model, vec![prompt(text, &[0]), generate(12, &[0])]);
    let told = run_to_the_last_word(&place, &asked);
    assert_eq!(told.text(0), plain["content"].as_str().unwrap());
    assert_eq!(told.timings()[0].prompt_tokens, plain["tokens_evaluated"].as_u64());
    assert!(told.steps(0).len() <= 12, "not more pieces than tokens");

    let chat = server.ask(
        "/v1/chat/completions",
        &json!({ "messages": [{ "role": "user", "content": "Name a colour." }], "max_tokens": 8, "temperature": 0 }),
    );
    let Some(chat_program) = llama_program(name, "llama-cli") else { return };
    for program in [program, chat_program] {
        let actions = vec![prompt("Name a colour.", &[0]), generate(8, &[0])];
        let mut asked = job(EngineKind::LlamaCli, &program, &model, actions);
        asked.server.api = Api::Chat;
        asked.options.ignore_end = false;
        let told = run_to_the_last_word(&place, &asked);
        assert_eq!(told.text(0), chat["choices"][0]["message"]["content"].as_str().unwrap(), "{program:?}");
        assert_eq!(told.timings()[0].generated_tokens, chat["usage"]["completion_tokens"].as_u64(), "{program:?}");
        assert_eq!(told.timings()[0].prompt_tokens, chat["usage"]["prompt_tokens"].as_u64(), "{program:?}");
    }
}

#[test]
fn a_model_that_ends_its_text_ends_the_request() {
    let name = "a_model_that_ends_its_text_ends_the_request";
    let (Some(program), Some(model)) = (llama_program(name, "llama-completion"), trained_model(name)) else { return };
    let place = Workplace::new();
    let mut asked =
        job(EngineKind::LlamaCli, &program, &model, vec![prompt("Say only: yes", &[0]), generate(200, &[0])]);
    asked.server.api = Api::Chat;
    asked.options.ignore_end = false;
    let told = run_to_the_last_word(&place, &asked);
    assert_eq!(told.reasons(), [(0, StopReason::EndOfGeneration)]);
    assert!(!told.text(0).contains("end of text"), "{:?}", told.text(0));
}

#[test]
fn a_prompt_is_filled_by_runs_that_count() {
    let name = "a_prompt_is_filled_by_runs_that_count";
    let (Some(program), Some(model)) = (llama_program(name, "llama-completion"), trained_model(name)) else { return };
    let place = Workplace::new();
    let text = "The harbour was quiet in the early morning. ".to_owned();
    let filled = Action::Prompt { text, sequences: vec![0], fill_to_tokens: Some(400) };
    let mut asked = job(EngineKind::LlamaCli, &program, &model, vec![filled, generate(2, &[0])]);
    asked.options.context_length = 1024;
    let told = run(place.place(), &asked);
    let tokens = told.timings()[0].prompt_tokens.unwrap();
    assert!(tokens.abs_diff(400) <= 4, "{tokens}");
    assert_eq!(told.pids().len(), 1, "only the real run is told of");
}

#[test]
fn what_the_program_cannot_do_is_said_before_it_is_started() {
    let name = "what_the_program_cannot_do_is_said_before_it_is_started";
    let (Some(program), Some(chat_program)) =
        (llama_program(name, "llama-completion"), llama_program(name, "llama-cli"))
    else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let two = job(EngineKind::LlamaCli, &program, &model, vec![prompt("abc", &[0, 1]), generate(2, &[0, 1])]);
    let (failure, told) = llama::fail(place.place(), &two);
    assert!(failure.message.contains("llama_cli answers one request at a time"), "{failure:?}");
    assert!(told.pids().is_empty());

    let text = job(EngineKind::LlamaCli, &chat_program, &model, vec![prompt("abc", &[0]), generate(2, &[0])]);
    let (failure, _) = llama::fail(place.place(), &text);
    assert!(failure.message.contains("only answers messages"), "{failure:?}");
    assert!(failure.hints.iter().any(|hint| hint.contains("llama-completion")), "{failure:?}");
}
