//! vLLM and SGLang need hardware that tests do not have. Here a protocol double answers as their documentation and
//! sources say they do, and the test is that all of it is understood.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod http;

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use dwell_events::engine::{Action, EngineEvent, EngineKind};
use dwell_events::server::BufferKind;
use http::{Request, ScriptedServer, Watcher, begin_stream, job, run, write_answer, write_chunk};
use serde_json::{Value, json};

/// SmolLM2 of 135 M: 30 layers, 3 key and value heads of 64 values.
const CONFIG: &str = r#"{"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"hidden_size":576,
    "torch_dtype":"bfloat16"}"#;

const VLLM_METRICS: &str = r#"# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="smol"} 0.03125
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="smol"} 48.0
vllm:prefix_cache_hits_created{engine="0",model_name="smol"} 1.7e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="smol"} 0.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="smol"} 3.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="fp8_e4m3",num_gpu_blocks="1024",sliding_window="None"} 1.0
"#;

fn stream(connection: &mut TcpStream, events: &[Value]) {
    begin_stream(connection);
    for event in events {
        write_chunk(connection, format!("data: {event}\n\n").as_bytes()).unwrap();
    }
    write_chunk(connection, b"data: [DONE]\n\n").unwrap();
    connection.write_all(b"0\r\n\r\n").unwrap();
}

fn vllm(root: String) -> ScriptedServer {
    ScriptedServer::new(move |request: &Request, connection| match request.path.as_str() {
        "/v1/models" => {
            let card =
                json!({"id": "smol", "object": "model", "owned_by": "vllm", "root": root, "max_model_len": 8192});
            write_answer(connection, 200, &json!({"object": "list", "data": [card]}).to_string());
        }
        "/version" => write_answer(connection, 200, r#"{"version":"0.11.0"}"#),
        "/metrics" => write_answer(connection, 200, VLLM_METRICS),
        "/tokenize" => {
            let tokens = request.body["prompt"].as_str().unwrap().split_whitespace().count();
            write_answer(connection, 200, &json!({"count": tokens, "max_model_len": 8192, "tokens": []}).to_string());
        }
        _ => stream(
            connection,
            &[
                json!({"choices": [{"index": 0, "text": " Paris", "token_ids": [7042], "prompt_token_ids": [504, 3575]}]}),
                json!({"choices": [{"index": 0, "text": " is", "token_ids": [314, 260], "finish_reason": null}]}),
                json!({"choices": [{"index": 0, "text": "", "token_ids": [], "finish_reason": "length"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 4}}}),
            ],
        ),
    })
}

#[test]
fn everything_that_vllm_says_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), CONFIG).unwrap();
    let server = vllm(folder.path().to_str().unwrap().to_owned());
    let mut job = job(EngineKind::Vllm, &format!("{}/v1", server.url), "The capital of France is", 3);
    job.options.ignore_end = true;
    let mut watcher = Watcher::default();
    run(&job, &mut watcher).unwrap();

    let ids = watcher.events.iter().filter_map(|event| match event {
        EngineEvent::Token { id, text, .. } => Some((*id, text.as_str())),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), [(Some(7042), " Paris"), (Some(314), ""), (Some(260), " is")]);
    let timings = watcher.timings()[0];
    assert_eq!((timings.prompt_tokens, timings.cached_tokens, timings.generated_tokens), (Some(5), Some(4), Some(3)));

    let facts = watcher.facts();
    assert_eq!(facts.version.as_deref(), Some("vLLM 0.11.0"));
    assert_eq!((facts.model_name.as_deref(), facts.context_length), (Some("smol"), Some(8192)));
    assert_eq!(facts.kv_type_k.as_deref(), Some("fp8_e4m3"));
    assert_eq!(facts.kv_bytes_per_token, Some(2 * 30 * 3 * 64), "one byte for each value");
    assert_eq!(facts.reported["cache_config.num_gpu_blocks"], "1024");

    let metrics = watcher.events.iter().find_map(|event| match event {
        EngineEvent::ServerMetrics { values } => Some(values),
        _ => None,
    });
    let metrics = metrics.unwrap();
    assert_eq!(metrics[r#"vllm:kv_cache_usage_perc{engine="0",model_name="smol"}"#], 0.03125);
    assert!(!metrics.keys().any(|name| name.contains("_bucket") || name.contains("_created")), "{metrics:?}");

    let requests = server.requests();
    let asked = requests.iter().find(|request| request.path == "/v1/completions").unwrap();
    let wanted = json!({"model": "smol", "prompt": "The capital of France is", "max_tokens": 3, "temperature": 0.0, "seed": 0,
        "stream": true, "stream_options": {"include_usage": true}, "return_token_ids": true, "ignore_eos": true});
    assert_eq!(asked.body, wanted);
}

#[test]
fn vllm_counts_tokens_so_that_a_prompt_is_as_long_as_wanted() {
    let server = vllm("elsewhere/model".to_owned());
    let mut job = job(EngineKind::Vllm, &server.url, "", 3);
    job.actions[0] = Action::Prompt { text: "tick tock ".to_owned(), sequences: vec![0], fill_to_tokens: Some(300) };
    let mut watcher = Watcher::default();
    run(&job, &mut watcher).unwrap();
    assert_eq!(watcher.facts().kv_bytes_per_token, None, "its configuration is not on this machine");
    let requests = server.requests();
    let asked = requests.iter().find(|request| request.path == "/v1/completions").unwrap();
    assert_eq!(asked.body["prompt"].as_str().unwrap().split_whitespace().count(), 300);
}

#[test]
fn everything_that_sglang_says_is_understood_under_old_and_new_names() {
    for is_new in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), CONFIG).unwrap();
        let model_path = folder.path().to_str().unwrap().to_owned();
        let server = ScriptedServer::new(move |request: &Request, connection| match (request.path.as_str(), is_new) {
            ("/v1/models", _) => {
                let card = json!({"id": "smol", "object": "model", "owned_by": "sglang", "root": "smol", "max_model_len": 4096});
                write_answer(connection, 200, &json!({"object": "list", "data": [card]}).to_string());
            }
            ("/server_info", true) | ("/get_server_info", false) => {
                let graph = if is_new { json!({"decode": 0.375, "prefill": 0.125}) } else { json!(0.5) };
                let memory_usage = json!({"weight": 0.25, "kvcache": 2.0, "token_capacity": 100_000, "graph": graph});
                let info = json!({"version": "0.5.9", "model_path": model_path, "kv_cache_dtype": "auto", "context_length": null,
                    "max_total_num_tokens": 100_000, "max_running_requests": 32, "page_size": 1,
                    "internal_states": [{"memory_usage": memory_usage}]});
                write_answer(connection, 200, &info.to_string());
            }
            ("/v1/completions", _) => {
                let last = json!({"choices": [{"index": 0, "text": " Paris", "finish_reason": "length"}]});
                stream(
                    connection,
                    &[last, json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})],
                );
            }
            _ => write_answer(connection, 404, r#"{"detail":"Not Found"}"#),
        });
        let mut watcher = Watcher::default();
        run(&job(EngineKind::Sglang, &server.url, "The capital of France is", 1), &mut watcher).unwrap();
        let facts = watcher.facts();
        assert_eq!(facts.version.as_deref(), Some("SGLang 0.5.9"));
        assert_eq!((facts.context_length, facts.slots), (Some(4096), Some(32)));
        assert_eq!(facts.kv_bytes_per_token, Some(23_040));
        assert_eq!(facts.reported["max_total_num_tokens"], "100000");
        let buffers = watcher.events.iter().find_map(|event| match event {
            EngineEvent::MemoryReported { buffers } => Some(buffers),
            _ => None,
        });
        let sizes: Vec<_> = buffers.unwrap().iter().map(|buffer| (buffer.kind, buffer.bytes >> 20)).collect();
        assert_eq!(sizes, [(BufferKind::Weights, 256), (BufferKind::KvCache, 2048), (BufferKind::Compute, 512)]);
        let has_metrics = watcher.events.iter().any(|event| matches!(event, EngineEvent::ServerMetrics { .. }));
        assert!(!has_metrics, "it publishes figures only if started so");
        assert_eq!(watcher.tokens(0), [" Paris"]);
    }
}

#[test]
fn several_models_and_none_need_a_name() {
    for (listed, expected, hint) in [
        (
            r#"[{"id":"a"},{"id":"b"}]"#,
            "choosing a model of openai: found a, b, and a name is needed",
            "name one: --model-name a",
        ),
        ("[]", "choosing a model of openai: found no models, and a name is needed", "name one: --model-name NAME"),
    ] {
        let body = format!(r#"{{"object":"list","data":{listed}}}"#);
        let server = ScriptedServer::new(move |_, connection| write_answer(connection, 200, &body));
        let failure = run(&job(EngineKind::OpenAi, &server.url, "x", 1), &mut Watcher::default()).unwrap_err();
        assert_eq!((failure.message.as_str(), failure.hints[0].as_str()), (expected, hint));
    }
}
