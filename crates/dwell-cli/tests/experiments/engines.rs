//! What engines cannot do is told before anything runs.

use crate::common::text_of;
use crate::lab::{Lab, SMALLEST};
use crate::served::experiment;

/// What `dwell validate` says of an experiment, with its exit code.
fn validated(lab: &Lab, model: &str, more: &str) -> (Option<i32>, String) {
    lab.write("checked.yaml", &experiment(model, more));
    let output = lab.output(&["validate", "--config", "checked.yaml"]);
    (output.status.code(), text_of(&output))
}

const JOINED: &str = "engine: llama_server, server: {url: localhost}";

#[test]
fn a_collector_that_cannot_watch_an_engine_is_replaced_or_refused() {
    let lab = Lab::new();
    let (code, said) = validated(&lab, JOINED, "");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("tensor_ops cannot watch it, process takes its place"), "{said}");
    let (code, said) = validated(&lab, JOINED, "collectors: {fallback: []}");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the collector tensor_ops cannot watch the model \"served\""), "{said}");
    let started = "path: tiny-a.gguf, engine: llama_server";
    let (_, said) = validated(&lab, started, "");
    assert!(!said.contains("cannot watch"), "{said}");
    let (code, said) = validated(&lab, started, "collectors: {use: [kv_events], fallback: []}");
    assert!(code == Some(1) && said.contains("llama_server publishes no KV events"), "{said}");
    let vllm = "engine: vllm, server: {url: localhost}";
    let (code, said) = validated(&lab, vllm, "collectors: {use: [kv_events], fallback: []}");
    assert!(code == Some(1) && said.contains("no server.kv_events.endpoint"), "{said}");
    let publishing = "engine: vllm, server: {url: localhost, kv_events: {endpoint: 'tcp://localhost:1'}}";
    let (code, said) = validated(&lab, publishing, "collectors: {use: [process]}");
    assert!(code == Some(0) && said.contains("its KV events are not recorded"), "{said}");
}

#[test]
fn a_collector_that_cannot_watch_one_engine_is_replaced_for_its_runs_alone() {
    let lab = Lab::new();
    let two = experiment(JOINED, "collectors: {use: [tensor_ops], fallback: [alloc, process]}")
        .replace("models:\n", "models:\n  - {id: embedded, path: tiny-a.gguf}\n");
    lab.write("two.yaml", &two);
    let said = text_of(&lab.output(&["validate", "--config", "two.yaml"]));
    // `alloc` cannot watch a server that runs already, either.
    assert!(said.contains("model \"served\": tensor_ops cannot watch it, process takes its place"), "{said}");
    assert!(!said.contains("\"embedded\": tensor_ops"), "{said}");
}

#[test]
fn what_takes_the_place_of_a_collector_is_in_the_metadata_of_the_run() {
    let lab = Lab::new();
    let text = format!("{SMALLEST}collectors: {{use: [browser], fallback: [kv_events, process]}}\n");
    let metadata = lab.run_text("falls.yaml", &text).run().metadata();
    let collectors = &metadata["collectors"];
    assert_eq!(collectors["used"], serde_json::json!(["process"]));
    let refused = |index: usize| (&collectors["refusals"][index]["collector"], &collectors["refusals"][index]["at"]);
    assert_eq!(refused(0), (&"browser".into(), &"engine".into()), "{collectors}");
    assert_eq!(refused(1), (&"kv_events".into(), &"engine".into()), "{collectors}");
    let fallback = &collectors["fallbacks"][0];
    assert_eq!((&fallback["wanted"], &fallback["instead"]), (&"browser".into(), &"process".into()));
}

#[test]
fn a_server_program_that_is_not_there_is_told_before_the_first_run() {
    let lab = Lab::new();
    let (code, said) = validated(&lab, "path: tiny-a.gguf, engine: llama_server, server: {program: ./absent}", "");
    assert_eq!(code, Some(0), "{said}");
    let warning = said.lines().find(|line| line.starts_with("warning: model \"served\":")).unwrap_or_default();
    assert!(warning.contains("nothing is there, a program is needed"), "{said}");
    assert!(said.contains("`server: {program: PATH}` in an experiment"), "{said}");
    let (_, said) = validated(&lab, JOINED, "");
    assert!(!said.contains("a program is needed"), "{said}");
}

#[test]
fn swept_keys_that_a_running_server_does_not_follow_are_told_once() {
    let lab = Lab::new();
    let (code, said) = validated(&lab, JOINED, "collectors: {use: [process]}");
    assert_eq!(code, Some(0), "{said}");
    let warning = "sweep.context_lengths, sweep.threads cannot change a llama_server that runs already";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    let (_, said) = validated(&lab, "path: tiny-a.gguf, engine: llama_server", "collectors: {use: [process]}");
    assert!(!said.contains("cannot change"), "{said}");
}

#[test]
fn what_only_the_file_says_is_not_checked_without_one() {
    let lab = Lab::new();
    let model = "engine: ollama, params: 1B, family: llama, server: {model_name: tiny}";
    let (code, said) = validated(&lab, model, "collectors: {use: [process]}");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("family, params cannot be checked, only the server has the model"), "{said}");
    let wrong = "path: tiny-a.gguf, engine: ollama, family: qwen3, server: {model_name: tiny}";
    let (code, said) = validated(&lab, wrong, "");
    assert!(code == Some(1) && said.contains("family is \"qwen3\""), "{said}");
}

#[test]
fn more_than_an_engine_can_do_is_refused() {
    let lab = Lab::new();
    let experiment = experiment("path: tiny-a.gguf, engine: llama_cli", "");
    lab.write("two.yaml", &experiment.replace("threads: [1]", "threads: [1], batch_sizes: [2]"));
    let output = lab.output(&["validate", "--config", "two.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("llama_cli generates one sequence"), "{}", text_of(&output));
}
