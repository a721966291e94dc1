//! Engines that are programs of their own: `llama-server`, `llama-cli`, Ollama, vLLM, SGLang, and whatever else speaks the
//! API of OpenAI. They are started or joined, asked for text, and listened to.
//!
//! ```text
//! Job ─▶ driver ─▶ Runtime (one per engine) ─▶ the server
//!           │          ├── its processes, which the observer samples
//!           │          └── tokens as they arrive, timings, figures that it publishes
//!           └────▶ EngineEvents
//! ```

#![forbid(unsafe_code)]

mod client;
mod command;
mod driver;
mod error;
mod ggml_use;
mod http;
mod in_browser;
mod installed;
mod llama_cli;
mod llama_help;
mod llama_server;
mod memory_lines;
mod model_file;
mod ndjson;
mod ollama;
mod openai;
mod openai_config;
mod processes;
mod program;
mod prometheus;
mod sglang;
mod sse;
mod tracing;
mod vllm;

use std::ffi::OsString;
use std::path::PathBuf;

pub use client::{Asked, Piece, Runtime, Speaker, Turn};
pub use driver::{FillTemplate, ServerEngine};
pub use error::ServerError;
pub use http::{DecodeError, Decoder, HttpClient, HttpError, HttpLimits, Interruption};
pub use in_browser::check_page_report;
pub use installed::{InstalledProgram, installed_programs};
pub use ndjson::LineDecoder;
pub use program::find_program;
pub use prometheus::{PrometheusError, parse_prometheus};
pub use sse::{SseDecoder, SseEvent};

/// Where an engine of this crate works.
#[derive(Clone, Debug)]
pub struct ServerPlace {
    /// Folder for what programs print: `server.log`.
    pub log_dir: PathBuf,
    /// Where the recorder inside a started program makes its ring; none leaves the program unrecorded.
    pub ring_dir: Option<PathBuf>,
    /// The recorder as a library to be preloaded, if there is one.
    pub preload_library: Option<PathBuf>,
    /// The recorder of allocations, to be preloaded into what is started; none records none.
    pub allocation_library: Option<PathBuf>,
    /// The process that empties rings.
    pub observer_pid: u32,
    /// Put before the command of a started program, so that the program ends when this process does.
    pub guard: Vec<OsString>,
    /// Folder of what was downloaded once.
    pub cache_dir: PathBuf,
    /// How often a page in a browser tells what it knows of its memory.
    pub page_sample_interval_ms: u64,
    /// Variables that a started program gets.
    pub environment: Vec<(OsString, OsString)>,
}
