//! What each key of a server does, in the order of the keys. Most need a real llama-server.

use serde_json::{Value, json};

use crate::common::{Run, text_of};
use crate::keys::Bench;
use crate::served::{self, experiment, failure, run};

/// What a run was asked to do.
fn job(run: &Run) -> Value {
    request(run)["job"].take()
}

fn request(run: &Run) -> Value {
    serde_json::from_slice(&std::fs::read(run.dir.join("raw/run.json")).unwrap()).unwrap()
}

/// Keys of a model in a server that the experiment starts, with more keys of the server.
fn started(program: &std::path::Path, more: &str) -> String {
    format!("path: tiny-a.gguf, engine: llama_server, server: {{program: {program:?}{more}}}")
}

pub fn url(bench: &Bench) {
    let nobody = failure(&bench.lab, "nobody", "engine: llama_server, server: {url: 'http://127.0.0.1:9'}");
    assert!(nobody.contains("127.0.0.1:9"), "{nobody}");
    let Some(server) = &bench.server else { return };
    let keys = format!("engine: llama_server, server: {{url: {:?}}}", server.url);
    let metadata = run(&bench.lab, "joined", &keys).run().metadata();
    assert_eq!(
        (&metadata["server"]["url"], &metadata["server"]["is_started_here"]),
        (&json!(server.url), &json!(false))
    );
    assert_eq!(metadata["generation"]["generated_tokens"], 2);
}

pub fn program(bench: &Bench) {
    let keys = "path: tiny-a.gguf, engine: llama_server, server: {program: no/such/program}";
    let said = failure(&bench.lab, "no-program", keys);
    assert!(said.contains("a program is needed: \"no/such/program\""), "{said}");
}

pub fn arguments(bench: &Bench) {
    let Some(program) = &bench.program else { return };
    let outcome = run(&bench.lab, "arguments", &started(program, ", arguments: [--alias, dwelling]"));
    let words = outcome.run().metadata()["server"]["command_line"].clone();
    assert!(words.as_array().unwrap().ends_with(&[json!("--alias"), json!("dwelling")]), "{words}");
}

pub fn pid(bench: &Bench) {
    let Some(server) = &bench.server else { return };
    let keys = format!("engine: openai, server: {{url: {:?}, pid: 4194304}}", server.url);
    let said = failure(&bench.lab, "no-process", &keys);
    assert!(said.contains("no process 4194304"), "{said}");
}

pub fn model_name(bench: &Bench) {
    let Some(server) = &bench.server else { return };
    let keys = format!("engine: openai, server: {{url: {:?}, model_name: another}}", server.url);
    assert_eq!(run(&bench.lab, "named", &keys).run().metadata()["server"]["model_name"], "another");
}

pub fn api(bench: &Bench) {
    let Some(server) = &bench.server else { return };
    let prompt_tokens = |api: &str| {
        let keys = format!("engine: llama_server, server: {{url: {:?}, api: {api}}}", server.url);
        run(&bench.lab, api, &keys).run().metadata()["generation"]["prompt_tokens"].as_u64().unwrap()
    };
    // A template puts words around the message.
    assert!(prompt_tokens("chat") > prompt_tokens("completion"));
}

pub fn api_key_variable(bench: &Bench) {
    let Some(program) = &bench.program else { return };
    let arguments = format!(", arguments: [--api-key-file, {:?}]", bench.lab.write("key.txt", "hush\n"));
    let refused = failure(&bench.lab, "no-key", &started(program, &arguments));
    assert!(refused.contains("401"), "{refused}");
    let keys = started(program, &format!("{arguments}, api_key_variable: DWELL_TEST_KEY"));
    bench.lab.write("key.yaml", &experiment(&keys, served::BY_PROCESS));
    let mut command = bench.lab.command(&["run", "--config", "key.yaml", "-o", "results-key"]);
    let output = command.env("DWELL_TEST_KEY", "hush").output().unwrap();
    crate::lab::assert_done(&output);
}

pub fn ready_within(bench: &Bench) {
    let program = served::silent_program(&bench.lab);
    let keys = format!("path: tiny-a.gguf, engine: llama_server, server: {{program: {program}, ready_within_s: 1}}");
    let said = failure(&bench.lab, "silent", &keys);
    assert!(said.contains("did not become ready within 1 s"), "{said}");
}

pub fn kv_bytes_per_token(bench: &Bench) {
    let Some(server) = &bench.server else { return };
    let keys = format!("engine: openai, server: {{url: {:?}, kv_bytes_per_token: 4321}}", server.url);
    assert_eq!(run(&bench.lab, "theory", &keys).run().metadata()["memory"]["kv"]["theory_bytes_per_token"], 4321);
}

pub fn kv_events_endpoint(bench: &Bench) {
    let Some(server) = &bench.server else { return };
    let model =
        format!("engine: vllm, server: {{url: {:?}, kv_events: {{endpoint: 'tcp://127.0.0.1:9'}}}}", server.url);
    bench.lab.write("unheard.yaml", &experiment(&model, "collectors: {use: [kv_events], fallback: []}"));
    let output = bench.lab.output(&["run", "--config", "unheard.yaml", "-o", "results-unheard"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("no publisher"), "{}", text_of(&output));
    assert!(text_of(&output).contains("tcp://127.0.0.1:9"), "{}", text_of(&output));
    // With a fallback, that takes its place, and the run says why.
    let outcome =
        bench.lab.run_text("heard", &experiment(&model, "collectors: {use: [kv_events], fallback: [process]}"));
    let refusal = &outcome.run().metadata()["collectors"]["refusals"][0];
    assert_eq!((&refusal["collector"], &refusal["at"]), (&json!("kv_events"), &json!("begin")));
    assert!(refusal["reason"].as_str().unwrap().contains("tcp://127.0.0.1:9"), "{refusal}");
}

/// That they reach the collector; what it does with them is tested where KV events are decoded.
pub fn kv_events_others(bench: &Bench) {
    let (Some(server), Some(publisher)) = (&bench.server, &bench.publisher) else { return };
    let endpoint = &publisher.endpoint;
    // The server speaks the same API as vLLM.
    let model = format!(
        "engine: vllm, server: {{url: {:?}, kv_events: \
         {{endpoint: {endpoint:?}, replay_endpoint: 'tcp://127.0.0.1:10', topic: kv, keeps_token_ids: true}}}}",
        server.url
    );
    let outcome = bench.lab.run_text("events", &experiment(&model, "collectors: {use: [process, kv_events]}"));
    assert_eq!(outcome.run().metadata()["collectors"]["used"], json!(["process", "kv_events"]));
    let wanted = json!({
        "endpoint": endpoint, "replay_endpoint": "tcp://127.0.0.1:10", "topic": "kv", "keeps_token_ids": true
    });
    assert_eq!(request(&outcome.run())["collectors"]["kv_events"], wanted);
}

pub fn device(bench: &Bench) {
    let refusal = bench.refusal_of_model("id: tiny-a, path: tiny-a.gguf, engine: ollama, server: {device: webgpu}");
    assert!(refusal.contains("server.device"), "{refusal}");
    bench.assert_model_fits("id: tiny-a, path: tiny-a.gguf, engine: wllama, server: {device: wasm}");
}

pub fn starts(bench: &Bench) {
    let text = crate::lab::SMALLEST.replace("threads: [1]", "threads: [1], starts: [cold, warm]");
    let runs = bench.lab.run_text("starts", &text).runs();
    let was_dropped = |start: &str| {
        let (_, run) = runs.iter().find(|(name, _)| name.ends_with(&format!("_{start}_rep1"))).unwrap();
        assert_eq!(job(run)["server"]["start"], start);
        run.metadata()["page_cache"]["was_dropped"].clone()
    };
    assert_eq!((was_dropped("cold"), was_dropped("warm")), (json!(true), json!(false)));
}
