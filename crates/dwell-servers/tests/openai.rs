//! The API of OpenAI, as the real server of llama.cpp speaks it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod http;

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_events::engine::{Action, EngineEvent, EngineKind};
use dwell_events::server::Api;
use dwell_servers::{HttpClient, Interruption};
use http::{Running, SMOLLM2, Watcher, cached, job, run, skip};
use serde_json::{Value, json};

const PROMPT: &str = "The capital of France is";

struct LlamaServer {
    running: Running,
    client: HttpClient,
}

/// A server of llama.cpp with the trained model, ready to answer; none if it is not in the cache.
fn llama_server() -> Option<LlamaServer> {
    let (program, model) = (cached("llama-tools/bin/llama-server")?, cached(SMOLLM2)?);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments = ["-c", "1024", "-np", "2", "-t", "1", "--no-webui", "--host", "127.0.0.1", "--port"];
    let mut command = Command::new(program);
    command.arg("-m").arg(model).args(arguments).arg(port.to_string());
    let running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let url = format!("http://127.0.0.1:{port}");
    let client = HttpClient::new(EngineKind::OpenAi, &url, None, Interruption::default()).unwrap();
    while client.get_json::<Value>("/health").is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(LlamaServer { running, client })
}

const MISSING: &str = "llama-server or the trained model is not in the cache (scripts/setup.sh test gets them)";

#[test]
fn tokens_figures_and_processes_are_those_of_the_server() {
    let name = "tokens_figures_and_processes_are_those_of_the_server";
    let Some(server) = llama_server() else { return skip(name, MISSING) };
    let mut watcher = Watcher::default();
    run(&job(EngineKind::OpenAi, server.client.url(), PROMPT, 12), &mut watcher).unwrap();

    let plain = json!({"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "seed": 0});
    let plain: Value = server.client.post_slow_json("/v1/completions", &plain).unwrap();
    assert_eq!(watcher.tokens(0).concat(), plain["choices"][0]["text"].as_str().unwrap());
    assert_eq!(watcher.tokens(0).len(), 12, "one piece per token");

    let timings = watcher.timings();
    assert_eq!((timings[0].prompt_tokens, timings[0].generated_tokens), (Some(5), Some(12)));
    assert!(timings[0].prompt_ns.unwrap() > 0 && timings[0].decode_ns.unwrap() > 0);

    assert_eq!(watcher.processes().into_iter().collect::<Vec<_>>(), [(server.running.0.id(), "server")]);
    let facts = watcher.facts();
    assert!(facts.model_name.as_ref().unwrap().ends_with("SmolLM2-135M-Instruct.Q4_1.gguf"), "{facts:?}");
    assert_eq!(facts.reported["owned_by"], "llamacpp");
    let loaded = watcher.events.iter().find_map(|event| match event {
        EngineEvent::Loaded { model } => Some(model),
        _ => None,
    });
    assert_eq!(loaded.unwrap().parameters, 134_515_008);
}

#[test]
fn a_conversation_goes_on_and_its_beginning_is_found_in_the_cache() {
    let name = "a_conversation_goes_on_and_its_beginning_is_found_in_the_cache";
    let Some(server) = llama_server() else { return skip(name, MISSING) };
    let mut job = job(EngineKind::OpenAi, server.client.url(), "Count: one, two, three, four, five,", 8);
    let more = Action::Prompt { text: " and then".to_owned(), sequences: vec![0], fill_to_tokens: None };
    job.actions.extend([more, Action::Generate { max_tokens: 4, sequences: vec![0] }]);
    let mut watcher = Watcher::default();
    run(&job, &mut watcher).unwrap();
    let timings = watcher.timings();
    let (first, second) = (timings[0], timings[1]);
    assert!(second.prompt_tokens > first.prompt_tokens);
    assert!(second.cached_tokens.unwrap() >= first.prompt_tokens.unwrap(), "{timings:?}");
}

#[test]
fn a_chat_is_answered() {
    let name = "a_chat_is_answered";
    let Some(server) = llama_server() else { return skip(name, MISSING) };
    let mut job = job(EngineKind::OpenAi, server.client.url(), "Say hello.", 8);
    job.server.api = Api::Chat;
    let mut watcher = Watcher::default();
    run(&job, &mut watcher).unwrap();
    let question = json!({"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0});
    let plain: Value = server.client.post_slow_json("/v1/chat/completions", &question).unwrap();
    assert_eq!(watcher.tokens(0).concat(), plain["choices"][0]["message"]["content"].as_str().unwrap());
    let prompt_tokens = watcher.timings()[0].prompt_tokens;
    assert_eq!(prompt_tokens, plain["usage"]["prompt_tokens"].as_u64(), "the template is the server's");
}

#[test]
fn two_sequences_are_answered_side_by_side() {
    let name = "two_sequences_are_answered_side_by_side";
    let Some(server) = llama_server() else { return skip(name, MISSING) };
    let mut job = job(EngineKind::OpenAi, server.client.url(), PROMPT, 6);
    for action in &mut job.actions {
        match action {
            Action::Prompt { sequences, .. } | Action::Generate { sequences, .. } => *sequences = vec![0, 1],
            _ => unreachable!("the job has no others"),
        }
    }
    let mut watcher = Watcher::default();
    run(&job, &mut watcher).unwrap();
    assert_eq!((watcher.tokens(0).len(), watcher.tokens(1).len()), (6, 6));
    assert_eq!(watcher.timings().len(), 2);
}

#[test]
fn an_end_is_gone_past_if_asked() {
    let name = "an_end_is_gone_past_if_asked";
    let Some(server) = llama_server() else { return skip(name, MISSING) };
    let mut job = job(EngineKind::OpenAi, server.client.url(), "Say hello.", 64);
    job.server.api = Api::Chat;
    let mut ended = Watcher::default();
    run(&job, &mut ended).unwrap();
    assert!(ended.timings()[0].generated_tokens.unwrap() < 64);
    job.options.ignore_end = true;
    let mut went_on = Watcher::default();
    run(&job, &mut went_on).unwrap();
    assert_eq!(went_on.timings()[0].generated_tokens, Some(64));
}

#[test]
fn a_server_that_is_killed_in_the_middle_leaves_its_tokens() {
    let name = "a_server_that_is_killed_in_the_middle_leaves_its_tokens";
    let Some(LlamaServer { running, client }) = llama_server() else { return skip(name, MISSING) };
    let mut job = job(EngineKind::OpenAi, client.url(), PROMPT, 800);
    job.options.ignore_end = true;
    let mut running = Some(running);
    let mut seen = 0;
    let mut watcher = Watcher::calling(move |event| {
        seen += usize::from(matches!(event, EngineEvent::Token { .. }));
        if seen == 5 {
            drop(running.take());
        }
    });
    let failure = run(&job, &mut watcher).unwrap_err();
    assert!(watcher.tokens(0).len() >= 5);
    let expected = format!("reading the answer to POST {}/v1/completions ended after ", client.url());
    assert!(failure.message.starts_with(&expected), "{}", failure.message);
    assert!(failure.message.ends_with("the server closed the connection before the end"), "{}", failure.message);
}
