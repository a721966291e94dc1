use std::io;
use std::path::PathBuf;

use dwell_events::Hint;
use dwell_store::StoreError;

use crate::DecodeError;

/// Why recorded batches could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A file could not be read, or the run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// There is nothing to import.
    #[error(
        "importing KV events found no batch that can be decoded ({}), and at least one was needed: {}",
        problem.as_ref().map_or_else(|| "there is none".to_owned(), ToString::to_string),
        files.iter().map(|file| format!("{file:?}")).collect::<Vec<_>>().join(", ")
    )]
    NoBatches {
        /// What was read.
        files: Vec<PathBuf>,
        /// Why the first batch could not be decoded.
        problem: Option<DecodeError>,
    },
}

impl Hint for RecordingError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::NoBatches { .. } => vec![
                "give kv_events.arrows of a run, payloads each behind its length in 4 bytes (big-endian), or one batch \
                 of `msgspec.json` per line"
                    .to_owned(),
            ],
        }
    }
}

/// Why a server's KV cache events could not be received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// Nobody answers as a publisher does.
    #[error("subscribing to KV events found no publisher ({reason}), and one was needed at {endpoint:?}")]
    NotConnected {
        /// What the socket said.
        reason: String,
        /// Where one was looked for.
        endpoint: String,
    },

    /// The raw stream could not be begun.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// No thread could be started.
    #[error("starting the thread that receives KV events failed with {source}")]
    NoThread {
        /// What the system said.
        source: io::Error,
    },
}

impl Hint for SubscribeError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotConnected { .. } => vec![
                r#"start vLLM with `--kv-events-config '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}'`"#.to_owned(),
                r#"start SGLang with `--kv-events-config '{"publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}'`"#.to_owned(),
            ],
            Self::Store(error) => error.hints(),
            Self::NoThread { .. } => Vec::new(),
        }
    }
}
