//! How a stream is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dwell_codec::Codec;

dwell_events::choices! {
    /// What happens to a tensor that finds the memory full.
    Pressure {
        /// Its producer waits; nothing is lost.
        Block = "block",
        /// It is dropped, and counted under its name in the stream.
        Drop = "drop",
        /// Its elements wait in a file; nothing is lost, and the producer waits for that file alone.
        Spill = "spill",
    }
}

dwell_events::choices! {
    /// Whether writes go past the page cache.
    DirectIo {
        /// Large batches do where the file system can.
        Auto = "auto",
        /// Never.
        Off = "off",
    }
}

/// How a stream is written. [`StreamOptions::default`] loses nothing.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// How elements are stored.
    pub codec: Codec,
    /// What happens when memory is full.
    pub pressure: Pressure,
    /// The most that tensors on their way to the file may take, in all buffers together.
    pub max_memory_bytes: u64,
    /// A batch is written once it holds this much.
    pub flush_bytes: u64,
    /// A batch is written at the latest this long after its first tensor came.
    pub flush_interval: Duration,
    /// Threads that encode; 0 for as many as there are cores.
    pub workers: usize,
    /// Whether writes go past the page cache.
    pub direct_io: DirectIo,
    /// Where [`Pressure::Spill`] keeps its file; beside the stream by default.
    pub spill_dir: Option<PathBuf>,
    /// The most that the spill file may take; a producer then waits.
    pub max_spill_bytes: u64,
    /// Where `checkpoint` leaves its file; `<stream>.ckpt.json` by default.
    pub checkpoint_path: Option<PathBuf>,
    /// What the file says about itself: model, settings, whatever the producer knows.
    pub metadata: BTreeMap<String, String>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            codec: Codec::Float,
            pressure: Pressure::Block,
            max_memory_bytes: 1 << 30,
            flush_bytes: 32 << 20,
            flush_interval: Duration::from_millis(500),
            workers: 0,
            direct_io: DirectIo::Auto,
            spill_dir: None,
            max_spill_bytes: u64::MAX,
            checkpoint_path: None,
            metadata: BTreeMap::new(),
        }
    }
}
