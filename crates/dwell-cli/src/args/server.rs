//! Arguments of engines that are programs of their own.

use std::path::PathBuf;

use clap::Args;
use dwell_events::server::{Api, StartKind};

use super::one_of;

/// How a runtime is reached or started; not for the embedded engine.
#[derive(Args)]
#[command(next_help_heading = "Engines that are programs of their own")]
pub(crate) struct ServerArgs {
    /// Address of a server that runs already, such as http://127.0.0.1:8080. Default: one is started.
    #[arg(long, value_name = "URL", conflicts_with_all = ["program", "server_arg"])]
    pub(crate) url: Option<String>,
    /// Program to start. Default: the engine's usual ones are looked for.
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Further argument of that program; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) server_arg: Vec<String>,
    /// Process of a running server. Default: found by its port.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// The model's name on the server. Default: the only one, or that of the file.
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Send the text as it is, or have the server answer a message in its own template of the model. Default: the text in
    /// the template of the model's file, filled as for the embedded engine, so that every engine computes the same tokens;
    /// chat if there is no file.
    #[arg(long, value_parser = one_of(Api::NAMES, Api::from_name))]
    pub(crate) api: Option<Api>,
    /// Environment variable that holds the key of the server's API; the key is recorded nowhere.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// State of the model when the run begins; cold: not loaded and not in the page cache, warm: it has answered once.
    #[arg(long, value_parser = one_of(StartKind::NAMES, StartKind::from_name), default_value = "as_found")]
    pub(crate) start: StartKind,
    /// Longest time for a server to be ready.
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    pub(crate) ready_secs: u64,
    /// ZeroMQ address at which vLLM or SGLang publishes what becomes of its KV blocks.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) kv_events: Option<String>,
    /// ZeroMQ address that sends batches of KV events again.
    #[arg(long, value_name = "ADDRESS", requires = "kv_events")]
    pub(crate) kv_events_replay: Option<String>,
    /// Topic of the KV events. Default: all.
    #[arg(long, value_name = "TOPIC", default_value = "", requires = "kv_events")]
    pub(crate) kv_events_topic: String,
    /// Keep the token ids of KV blocks rather than a salted hash of them.
    #[arg(long, requires = "kv_events")]
    pub(crate) keep_token_ids: bool,
    /// Bytes of KV cache that one token takes. Default: from the model file, or the server.
    #[arg(long, value_name = "BYTES")]
    pub(crate) kv_bytes_per_token: Option<u64>,
}
