//! What vLLM says besides what every server with the API of OpenAI says, and how it is started.

use std::collections::BTreeMap;
use std::ffi::OsString;

use dwell_events::engine::{EngineKind, Job};
use dwell_events::server::{BufferKind, KvEventsOptions, ReportedBuffer, ServerDescription};
use serde::Deserialize;
use serde_json::json;

use crate::ServerError;
use crate::openai::{Extras, Reached};
use crate::openai_config::{KvWidth, kv_bytes_per_token_of};
use crate::processes::has_device_open;
use crate::program::{ProgramCommand, find_program};
use crate::prometheus::{labels_of, parse_prometheus};

/// The figure whose labels are the settings of the cache.
const CACHE_SETTINGS: &str = "vllm:cache_config_info";
/// Devices that a server has open if its cache is in the memory of an accelerator.
const ACCELERATORS: [&str; 4] = ["/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel"];

/// What vLLM says besides.
pub(crate) const EXTRAS: Extras = Extras {
    add_facts,
    buffers,
    launch: Some(launch),
    untraced_because: "vLLM does not compute with ggml, whose computations are what is recorded",
};

type Settings = BTreeMap<String, String>;

/// Adds version, settings of the cache, and what one token takes of it.
fn add_facts(server: &Reached<'_>, facts: &mut ServerDescription) -> Result<(), ServerError> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    facts.version = server.client.get_json::<Version>("/version").ok().map(|said| format!("vLLM {}", said.version));
    let settings = cache_settings(server);
    facts.kv_type_k = settings.get("cache_dtype").cloned();
    facts.kv_type_v = facts.kv_type_k.clone();
    facts.kv_bytes_per_token = kv_bytes_per_token(server, &settings);
    for (name, value) in settings {
        facts.reported.insert(format!("cache_config.{name}"), value);
    }
    Ok(())
}

/// The pool of blocks, which it allocates when it starts.
fn buffers(server: &Reached<'_>) -> Vec<ReportedBuffer> {
    let settings = cache_settings(server);
    let number = |name: &str| settings.get(name).and_then(|value| value.parse::<u64>().ok());
    let tokens = number("num_gpu_blocks").zip(number("block_size")).and_then(|(blocks, size)| blocks.checked_mul(size));
    let bytes = tokens.zip(kv_bytes_per_token(server, &settings)).and_then(|(tokens, each)| tokens.checked_mul(each));
    // The blocks are named so on the CPU too.
    let is_on_accelerator = server.pid.is_none_or(|pid| has_device_open(pid, &ACCELERATORS));
    let device = if is_on_accelerator { "GPU" } else { "CPU" }.to_owned();
    bytes
        .map(|bytes| ReportedBuffer { kind: BufferKind::KvCache, device, bytes, is_mapped: false })
        .into_iter()
        .collect()
}

fn cache_settings(server: &Reached<'_>) -> Settings {
    let page = server.client.get_text("/metrics").unwrap_or_default();
    let figures = parse_prometheus(&page).unwrap_or_default();
    labels_of(&figures, CACHE_SETTINGS).unwrap_or_default()
}

fn kv_bytes_per_token(server: &Reached<'_>, settings: &Settings) -> Option<u64> {
    let width = KvWidth::named(settings.get("cache_dtype").map(String::as_str))?;
    kv_bytes_per_token_of(server.card.root.as_deref()?, server.folder().as_deref(), width)
}

/// `vllm serve`, on this port.
fn launch(job: &Job, port: u16) -> Result<ProgramCommand, ServerError> {
    let (options, server) = (&job.options, &job.server);
    let has_path = !options.model.as_os_str().is_empty();
    let name = server.model_name.as_ref();
    let model = if has_path { Some(options.model.clone().into_os_string()) } else { name.map(OsString::from) };
    let model = model.ok_or(ServerError::NoModelName { engine: EngineKind::Vllm, listed: Vec::new() })?;
    let mut arguments: Vec<OsString> = vec!["serve".into(), model];
    if let Some(name) = name.filter(|_| has_path) {
        arguments.extend(["--served-model-name".into(), name.into()]);
    }
    let given = [
        ("--host", "127.0.0.1".to_owned()),
        ("--port", port.to_string()),
        ("--max-model-len", options.context_length.to_string()),
    ];
    arguments.extend(given.into_iter().flat_map(|(option, value)| [option.into(), value.into()]));
    arguments.push("--enable-prompt-tokens-details".into());
    if let Some(events) = &server.kv_events {
        arguments.extend(["--kv-events-config".into(), publisher(events).into()]);
    }
    arguments.extend(server.arguments.iter().map(OsString::from));
    Ok(ProgramCommand {
        engine: EngineKind::Vllm,
        program: find_program(EngineKind::Vllm, server.program.as_deref())?,
        arguments,
        environment: Vec::new(),
    })
}

/// The publisher of KV events that dwell subscribes to.
fn publisher(events: &KvEventsOptions) -> String {
    let mut config = json!({
        "enable_kv_cache_events": true,
        "publisher": "zmq",
        "endpoint": listening(&events.endpoint),
        "topic": events.topic,
    });
    if let Some(replay) = &events.replay_endpoint {
        config["replay_endpoint"] = listening(replay).into();
    }
    config.to_string()
}

/// The address as vLLM takes it: with a host, it connects instead of listening.
fn listening(endpoint: &str) -> String {
    match endpoint.strip_prefix("tcp://").and_then(|address| address.rsplit_once(':')) {
        Some((_, port)) => format!("tcp://*:{port}"),
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::path::Path;

    use dwell_events::engine::EngineOptions;
    use dwell_events::server::ServerOptions;

    use super::*;

    fn arguments(job: &Job) -> Vec<String> {
        let command = launch(job, 4711).unwrap();
        assert_eq!(command.program, Path::new("vllm"));
        command.arguments.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    fn job(model: &str, server: ServerOptions) -> Job {
        let server = ServerOptions { program: Some("vllm".into()), ..server };
        Job { engine: EngineKind::Vllm, server, options: EngineOptions::new(model.into()), actions: Vec::new() }
    }

    #[test]
    fn a_folder_is_served_under_its_path_or_the_name_that_is_given() {
        let found = arguments(&job("/models/tiny", ServerOptions::default()));
        let always = ["--host", "127.0.0.1", "--port", "4711", "--max-model-len", "2048"];
        assert_eq!(found[..2], ["serve", "/models/tiny"]);
        assert_eq!(
            (&found[2..8], found.last().unwrap().as_str()),
            (&always.map(str::to_owned)[..], "--enable-prompt-tokens-details")
        );
        let named = ServerOptions { model_name: Some("tiny".into()), ..ServerOptions::default() };
        assert_eq!(arguments(&job("/models/tiny", named.clone()))[2..4], ["--served-model-name", "tiny"]);
        assert_eq!(arguments(&job("", named))[..2], ["serve", "tiny"], "a name alone is one of the hub");
        assert!(launch(&job("", ServerOptions::default()), 1).is_err());
    }

    #[test]
    fn a_publisher_listens_where_dwell_subscribes_and_given_arguments_come_last() {
        let events = KvEventsOptions {
            endpoint: "tcp://127.0.0.1:5557".into(),
            replay_endpoint: Some("ipc:///tmp/replay".into()),
            topic: "kv".into(),
            keeps_token_ids: false,
        };
        let server = ServerOptions {
            kv_events: Some(events),
            arguments: vec!["--enforce-eager".into()],
            ..ServerOptions::default()
        };
        let found = arguments(&job("m", server));
        let place = found.iter().position(|word| word == "--kv-events-config").unwrap();
        let config: serde_json::Value = serde_json::from_str(&found[place + 1]).unwrap();
        assert_eq!(config["endpoint"], "tcp://*:5557");
        assert_eq!((&config["replay_endpoint"], &config["topic"]), (&"ipc:///tmp/replay".into(), &"kv".into()));
        assert_eq!(found.last().unwrap(), "--enforce-eager");
    }
}
