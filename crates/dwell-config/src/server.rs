//! How a runtime that dwell does not embed is reached or started.

use std::path::PathBuf;

use dwell_events::server::{Api, KvEventsOptions, PageDevice, ServerOptions};
use serde::{Deserialize, Serialize};

/// How a runtime is reached or started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Address of a server that runs already.
    pub url: Option<String>,
    /// Program to start, as written: a path relative to the experiment file, or a name.
    pub program: Option<PathBuf>,
    /// Arguments that the program gets besides those that dwell gives.
    pub arguments: Vec<String>,
    /// What computes in a page of a browser. Left out where it is not given, as in experiments begun by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PageDevice>,
    /// Process of a server that runs already.
    pub pid: Option<u32>,
    /// The model's name on the server.
    pub model_name: Option<String>,
    /// How it is asked; absent has dwell fill the template of the model's file, if there is one.
    pub api: Option<Api>,
    /// Environment variable that holds the key of the API.
    pub api_key_variable: Option<String>,
    /// Longest time for a started server to be ready.
    pub ready_within_s: Option<u64>,
    /// Bytes of KV cache that one token takes, in theory.
    pub kv_bytes_per_token: Option<u64>,
    /// Where it publishes what becomes of its KV blocks.
    pub kv_events: KvEventsConfig,
}

/// Where a server publishes what becomes of its KV blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvEventsConfig {
    /// ZeroMQ address of the publisher; absent means that it does not publish.
    pub endpoint: Option<String>,
    /// ZeroMQ address that sends batches again.
    pub replay_endpoint: Option<String>,
    /// Topic; empty takes all.
    pub topic: String,
    /// Whether token ids are kept rather than hashed with a salt.
    pub keeps_token_ids: bool,
}

impl ServerConfig {
    /// The same for an engine. What is swept is left as it is found.
    pub fn options(&self) -> ServerOptions {
        ServerOptions {
            url: self.url.clone(),
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            device: self.device,
            pid: self.pid,
            model_name: self.model_name.clone(),
            api: self.api.unwrap_or_default(),
            api_key_variable: self.api_key_variable.clone(),
            ready_within_s: self.ready_within_s,
            kv_bytes_per_token: self.kv_bytes_per_token,
            kv_events: self.kv_events.options(),
            ..ServerOptions::default()
        }
    }
}

impl KvEventsConfig {
    /// The same for the collector `kv_events`; none if the server does not publish.
    pub fn options(&self) -> Option<KvEventsOptions> {
        Some(KvEventsOptions {
            endpoint: self.endpoint.clone()?,
            replay_endpoint: self.replay_endpoint.clone(),
            topic: self.topic.clone(),
            keeps_token_ids: self.keeps_token_ids,
        })
    }
}
