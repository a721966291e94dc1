//! What SGLang says besides what every server with the API of OpenAI says.

use dwell_events::server::{BufferKind, ReportedBuffer, ServerDescription};
use serde_json::Value;

use crate::ServerError;
use crate::http::{HttpClient, HttpError};
use crate::openai::{Extras, Reached};
use crate::openai_config::{KvWidth, kv_bytes_per_token_of};

/// The unit of its memory figures, which are rounded.
const GIB: f64 = (1_u64 << 30) as f64;

/// Where it tells its settings and state: without `get_` since 0.5, before with it.
const INFO_PATHS: [&str; 2] = ["/server_info", "/get_server_info"];

/// Settings that are told as they are.
const REPORTED: [&str; 6] = [
    "model_path",
    "max_total_num_tokens",
    "page_size",
    "mem_fraction_static",
    "attention_backend",
    "disable_radix_cache",
];

/// What SGLang says besides.
pub(crate) const EXTRAS: Extras = Extras { add_facts, buffers, ..Extras::NONE };

/// Adds version, settings of the cache, and what one token takes of it.
fn add_facts(server: &Reached<'_>, facts: &mut ServerDescription) -> Result<(), ServerError> {
    let info = server_info(server.client)?;
    let text = |name: &str| info[name].as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let kv_type = text("kv_cache_dtype");
    facts.version = text("version").map(|version| format!("SGLang {version}"));
    facts.context_length = number(&info["context_length"]).or(facts.context_length);
    // The setting may be larger than what the memory allows.
    let effective = &info["internal_states"][0]["effective_max_running_requests_per_dp"];
    facts.slots = number(effective).or_else(|| number(&info["max_running_requests"]));
    facts.kv_bytes_per_token = text("model_path")
        .and_then(|path| kv_bytes_per_token_of(&path, server.folder().as_deref(), KvWidth::named(kv_type.as_deref())?));
    facts.kv_type_k = kv_type.clone();
    facts.kv_type_v = kv_type;
    for name in REPORTED {
        let value = match &info[name] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        facts.reported.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Memory that it says it uses; of several devices that share a model the first one speaks.
fn buffers(server: &Reached<'_>) -> Vec<ReportedBuffer> {
    let Ok(info) = server_info(server.client) else { return Vec::new() };
    let states = info["internal_states"].as_array().into_iter().flatten();
    states.flat_map(|state| buffers_of(&state["memory_usage"])).collect()
}

fn buffers_of(usage: &Value) -> Vec<ReportedBuffer> {
    let graphs = ["graph", "cuda_graph"].map(|name| gib_of(&usage[name])).into_iter().sum();
    let parts = [
        (BufferKind::Weights, gib_of(&usage["weight"])),
        (BufferKind::KvCache, gib_of(&usage["kvcache"])),
        (BufferKind::Compute, graphs),
    ];
    let buffer = |(kind, gib): (BufferKind, f64)| {
        let bytes = (gib * GIB) as u64;
        ReportedBuffer { kind, device: "first".to_owned(), bytes, is_mapped: false }
    };
    parts.into_iter().map(buffer).filter(|buffer| buffer.bytes > 0).collect()
}

/// A figure, or the sum of several by name; 0 if there is none.
fn gib_of(value: &Value) -> f64 {
    match value {
        Value::Object(parts) => parts.values().map(gib_of).sum(),
        other => other.as_f64().filter(|gib| gib.is_finite() && *gib > 0.0).unwrap_or(0.0),
    }
}

fn server_info(client: &HttpClient) -> Result<Value, HttpError> {
    match client.get_json(INFO_PATHS[0]) {
        Err(HttpError::Status { status: 404 | 405, .. }) => client.get_json(INFO_PATHS[1]),
        answer => answer,
    }
}
