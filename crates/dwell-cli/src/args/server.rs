//! Arguments of engines that are programs of their own.

use std::path::PathBuf;

use clap::Args;
use dwell_events::server::{Api, PageDevice, StartKind};

use super::one_of;

/// How a runtime is reached or started; not for the embedded engine.
#[derive(Args)]
#[command(next_help_heading = "External engines")]
pub(crate) struct ServerArgs {
    /// Join the server at this address, such as http://127.0.0.1:8080. Default: start one.
    #[arg(long, value_name = "URL", conflicts_with_all = ["program", "server_arg"])]
    pub(crate) url: Option<String>,
    /// Program to start. Default: the engine's, in PATH and the usual folders.
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Extra argument for the program; repeatable.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) server_arg: Vec<String>,
    /// What computes in a page of a browser. Default: webgpu for webllm, else wasm.
    #[arg(long, value_parser = one_of(PageDevice::NAMES, PageDevice::from_name))]
    pub(crate) device: Option<PageDevice>,
    /// Process id of the joined server. Default: found by its port.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Name of the model on the server. Default: the only one, or that of the file.
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Send bare text (completion), or a message for the server's own chat template (chat). Default: the text in the
    /// template of the model file, filled by dwell; chat if there is no file.
    #[arg(long, value_parser = one_of(Api::NAMES, Api::from_name))]
    pub(crate) api: Option<Api>,
    /// Environment variable with the server's API key; dwell does not record the key.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// State of the model at the start; cold: not loaded, not in the page cache; warm: has answered once.
    #[arg(long, value_parser = one_of(StartKind::NAMES, StartKind::from_name), default_value = "as_found")]
    pub(crate) start: StartKind,
    /// Seconds to wait for a server to be ready.
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    pub(crate) ready_secs: u64,
    /// ZeroMQ address at which vLLM or SGLang publishes KV events.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) kv_events: Option<String>,
    /// ZeroMQ address that replays KV events.
    #[arg(long, value_name = "ADDRESS", requires = "kv_events")]
    pub(crate) kv_events_replay: Option<String>,
    /// Topic of the KV events. Default: all.
    #[arg(long, value_name = "TOPIC", default_value = "", requires = "kv_events")]
    pub(crate) kv_events_topic: String,
    /// Keep the token ids of KV blocks instead of a salted hash.
    #[arg(long, requires = "kv_events")]
    pub(crate) keep_token_ids: bool,
    /// KV cache bytes per token. Default: from the model file or the server.
    #[arg(long, value_name = "BYTES")]
    pub(crate) kv_bytes_per_token: Option<u64>,
}
