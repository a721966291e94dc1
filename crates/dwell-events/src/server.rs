//! Runtimes that dwell does not embed: how they are reached, and what they say of themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::choices;

choices! {
    /// How a server is asked for text.
    Api {
        /// A text to be continued.
        Completion = "completion",
        /// A message to be answered; the server applies its template of the model.
        Chat = "chat",
    }
}

#[expect(clippy::derivable_impls, reason = "the list of choices has no place for it")]
impl Default for Api {
    fn default() -> Self {
        Api::Completion
    }
}

choices! {
    /// In which state the model is when a run begins.
    StartKind {
        /// As it is found.
        AsFound = "as_found",
        /// Not loaded, and its file not in the page cache.
        Cold = "cold",
        /// Loaded, and asked once before.
        Warm = "warm",
    }
}

#[expect(clippy::derivable_impls, reason = "the list of choices has no place for it")]
impl Default for StartKind {
    fn default() -> Self {
        StartKind::AsFound
    }
}

choices! {
    /// What computes in a page of a browser.
    PageDevice {
        /// The processor, by WebAssembly.
        Wasm = "wasm",
        /// The GPU, or what stands in for it, by WebGPU.
        WebGpu = "webgpu",
    }
}

/// Folder, in that of a run's raw files, in which programs make their rings into which the recorder was loaded.
pub const PROGRAM_RINGS_DIR: &str = "programs";

/// Environment variable by which the observer tells the worker which library records allocations of the programs that it starts.
pub const ALLOCATION_LIBRARY_VARIABLE: &str = "DWELL_ALLOC_LIBRARY";

/// Folder, in that of a run's raw files, with the profile of a browser while it runs.
pub const BROWSER_PROFILE_DIR: &str = "browser-profile";

/// Ending of the empty file that a program leaves there if it computes and cannot make its ring.
pub const NOTICE_ENDING: &str = "unrecorded";

/// How a runtime is reached or started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerOptions {
    /// Address of a server that runs already, such as `http://127.0.0.1:8080`; none starts one.
    pub url: Option<String>,
    /// Program to start; none looks for the engine's usual ones.
    pub program: Option<PathBuf>,
    /// Arguments that the program gets besides those that dwell gives.
    pub arguments: Vec<String>,
    /// What computes in a page of a browser; none leaves it to the runtime.
    pub device: Option<PageDevice>,
    /// Process of a server that runs already, where it cannot be found by its port.
    pub pid: Option<u32>,
    /// The model's name on the server; none takes the only one, or the file.
    pub model_name: Option<String>,
    /// How it is asked.
    pub api: Api,
    /// The model's chat template, which dwell fills and sends as a text to be continued: every engine then computes the
    /// same tokens. None sends texts as they are.
    pub template: Option<String>,
    /// Environment variable that holds the key of the API. The key itself is recorded nowhere.
    pub api_key_variable: Option<String>,
    /// In which state the model is when the run begins.
    pub start: StartKind,
    /// Longest time for a server to be ready; none takes five minutes.
    pub ready_within_s: Option<u64>,
    /// Bytes of KV cache that one token takes, where neither a model file nor the server says it.
    pub kv_bytes_per_token: Option<u64>,
    /// Where it publishes what becomes of its KV blocks; one that dwell starts is told to.
    pub kv_events: Option<KvEventsOptions>,
}

/// Where a server publishes what becomes of its KV blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvEventsOptions {
    /// ZeroMQ address of the publisher, such as `tcp://127.0.0.1:5557`.
    pub endpoint: String,
    /// ZeroMQ address that sends batches again; none cannot fill gaps.
    pub replay_endpoint: Option<String>,
    /// Topic; empty takes all.
    pub topic: String,
    /// Whether token ids are kept rather than hashed with a salt.
    pub keeps_token_ids: bool,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerDescription {
    /// Product and version, such as `llama.cpp b11669`, as far as it says.
    pub version: Option<String>,
    /// Address.
    pub url: Option<String>,
    /// Whether dwell started it.
    pub is_started_here: bool,
    /// How it was started, where that is known.
    pub command_line: Vec<String>,
    /// The model's name on the server.
    pub model_name: Option<String>,
    /// The model's file on this machine.
    pub model_path: Option<PathBuf>,
    /// Context length per sequence.
    pub context_length: Option<u32>,
    /// Requests that it answers side by side.
    pub slots: Option<u32>,
    /// Whether these share the positions of one context, rather than each having its own.
    pub shares_context: Option<bool>,
    /// Type of the keys in the KV cache.
    pub kv_type_k: Option<String>,
    /// Type of the values in the KV cache.
    pub kv_type_v: Option<String>,
    /// Bytes of KV cache that one token takes, by what the server says of the model.
    pub kv_bytes_per_token: Option<u64>,
    /// Whether its computations are recorded exactly; if not, why not.
    pub untraced_because: Option<String>,
    /// What the program returned, where dwell waited for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the program, where dwell waited for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// Whether the model was loaded before the first request of the run.
    pub was_loaded: Option<bool>,
    /// What else it said, by its own names.
    pub reported: BTreeMap<String, String>,
}

/// A process of an engine whose accesses are in the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedProcess {
    /// Its number in the run: bits 56 and above of every address of it in the tables.
    pub process: u8,
    /// Process id.
    pub pid: u32,
    /// Its program.
    pub program: String,
}

impl ServerDescription {
    /// Positions of the KV cache, over all slots; not known where it is not said how they divide it.
    pub fn context_positions(&self) -> Option<u64> {
        let length = u64::from(self.context_length?);
        match (self.slots, self.shares_context) {
            (None | Some(0 | 1), _) | (_, Some(true)) => Some(length),
            (Some(slots), Some(false)) => Some(length * u64::from(slots)),
            (Some(_), None) => None,
        }
    }
}

choices! {
    /// What a buffer holds.
    BufferKind {
        /// The model's weights.
        Weights = "weights",
        /// KV cache.
        KvCache = "kv_cache",
        /// State of layers without attention.
        RecurrentState = "recurrent_state",
        /// Intermediate results.
        Compute = "compute",
        /// Anything else.
        Other = "other",
    }
}

/// A buffer that a runtime says it allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedBuffer {
    /// What it holds.
    pub kind: BufferKind,
    /// Where it is, by the runtime's own name, such as `CPU` or `CUDA0`.
    pub device: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it maps a file rather than taking memory of its own.
    pub is_mapped: bool,
}

/// What a server says of one request. What it does not say is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestTimings {
    /// Tokens of the prompt, with those that were in the cache.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the prompt that were in the cache and not computed.
    pub cached_tokens: Option<u64>,
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Time spent loading the model.
    pub load_ns: Option<u64>,
    /// Time in the prompt.
    pub prompt_ns: Option<u64>,
    /// Time decoding.
    pub decode_ns: Option<u64>,
    /// From the request to its last token.
    pub total_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_contexts_of_their_own_or_share_one() {
        let facts = |slots, shares_context| ServerDescription {
            context_length: Some(512),
            slots,
            shares_context,
            ..ServerDescription::default()
        };
        assert_eq!(facts(None, None).context_positions(), Some(512));
        assert_eq!(facts(Some(1), None).context_positions(), Some(512));
        assert_eq!(facts(Some(4), Some(false)).context_positions(), Some(2048));
        assert_eq!(facts(Some(4), Some(true)).context_positions(), Some(512));
        assert_eq!(facts(Some(4), None).context_positions(), None);
    }
}
