use std::io;
use std::path::PathBuf;

use dwell_events::Hint;
use dwell_store::StoreError;

/// Why a collector could not record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// Something could not be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// A server's KV events could not be listened to.
    #[error(transparent)]
    KvEvents(dwell_kv_events::SubscribeError),

    /// The settings of a collector are not its own.
    #[error("reading the settings of the collector {collector} failed with {reason}")]
    Settings {
        /// The collector.
        collector: &'static str,
        /// What was wrong.
        reason: String,
    },

    /// The kernel does not let this user have perf events.
    #[error("opening the perf events of the collector {collector} failed with {source}")]
    PerfEvents {
        /// The collector.
        collector: &'static str,
        /// What was returned.
        source: io::Error,
    },

    /// The processor has no events for it.
    #[error("beginning with the collector {collector} found no events for it: {reason}")]
    NoEvents {
        /// The collector.
        collector: &'static str,
        /// What was found.
        reason: String,
    },

    /// Two collectors would fill one trace.
    #[error(
        "beginning with the collector {collector} found {other} chosen too: a trace has either every access or a sample of them, \
         and metrics of both together would be wrong"
    )]
    TwoTraces {
        /// The collector.
        collector: &'static str,
        /// The one that records every access.
        other: &'static str,
    },

    /// A library that is loaded into programs is not there.
    #[error("beginning to record allocations found no {library} beside dwell or in ../lib/dwell")]
    NoLibrary {
        /// Its name.
        library: &'static str,
    },

    /// A process's ring could not be read.
    #[error("opening the worker's ring failed with {reason}: {path:?}")]
    Ring {
        /// What was wrong.
        reason: String,
        /// The ring.
        path: PathBuf,
    },
}

impl Hint for CollectError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::KvEvents(error) => error.hints(),
            Self::NoLibrary { .. } => {
                vec!["build it with `cargo build --release -p dwell-alloc` and put it beside dwell".to_owned()]
            }
            Self::TwoTraces { collector, .. } => {
                vec![format!("--collect process,{collector}, and the other one in a run of its own")]
            }
            Self::PerfEvents { collector, .. } | Self::NoEvents { collector, .. } => {
                vec![format!("dwell doctor --collect {collector}")]
            }
            Self::Ring { .. } | Self::Settings { .. } => Vec::new(),
        }
    }
}
