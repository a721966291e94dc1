//! Where a run that dwell did not record itself comes from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dwell_events::kv_blocks::KvBlocksReport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The recorded KV events that a run was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvEventsImport {
    /// The files; each continues where the one before ended.
    pub files: Vec<ImportedFile>,
    /// Bytes of keys and values that one token takes, if known.
    pub kv_bytes_per_token: Option<u64>,
    /// `kept` or `hashed`.
    pub token_ids: String,
    /// `given` or `random`; none if token ids are kept.
    pub salt: Option<String>,
    /// What the events came to.
    #[serde(flatten)]
    pub report: KvBlocksReport,
}

/// A file that a run was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedFile {
    /// The file.
    pub path: PathBuf,
    /// How its batches were recorded.
    pub form: String,
    /// How many there are.
    pub batches: u64,
}

/// What a run was made from that another program recorded; for KV events, [`KvEventsImport`] says it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportOrigin {
    /// Name of the format, as in `dwell import FORMAT`.
    pub format: String,
    /// The files.
    pub files: Vec<PathBuf>,
    /// What was found in them.
    #[serde(flatten)]
    pub found: Map<String, Value>,
}

/// What was found in captures of memray: the content of `import` beside the format and the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemrayImport {
    /// The captures, one for each process.
    pub captures: Vec<MemrayCaptureOrigin>,
    /// Calls by allocator.
    pub allocators: BTreeMap<String, AllocatorTotals>,
    /// Programs and libraries of native stacks: `named` if their symbols were read, and `missing`. Nobody knows whether they
    /// are the ones that ran: captures have no build ids.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, u64>,
}

/// Calls of one allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatorTotals {
    /// How many; in captures with sums, those at the peak.
    pub calls: u64,
    /// Bytes that they allocated, or freed as far as that is known.
    pub bytes: u64,
}

/// A capture of memray: what one process allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemrayCaptureOrigin {
    /// The file.
    pub file: PathBuf,
    /// Version of its format.
    pub format_version: u32,
    /// `calls`, or `sums` if memray wrote only sums by place.
    pub form: String,
    /// Whether it ends with its trailer.
    pub is_whole: bool,
    /// Process.
    pub pid: u32,
    /// Version of Python.
    pub python_version: String,
    /// Allocator of Python's objects.
    pub python_allocator: String,
    /// Whether calls of that allocator were recorded.
    pub has_python_allocations: bool,
    /// Whether native stacks were recorded.
    pub has_native_stacks: bool,
    /// Command line.
    pub command_line: String,
    /// When recording began, in milliseconds since 1970.
    pub start_unix_ms: i64,
    /// Main thread.
    pub main_thread_id: u64,
    /// Its outermost frames that are memray's own.
    pub frames_of_memray: u64,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// Calls that allocate.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
    /// Calls that free.
    pub frees: u64,
    /// Those that freed what nobody was seen to allocate.
    pub frees_of_unknown: u64,
    /// Most bytes that were allocated at a time.
    pub peak_bytes: Option<u64>,
    /// Bytes that were allocated at the end.
    pub left_bytes: Option<u64>,
    /// Threads that allocated or freed.
    pub threads: u64,
    /// Distinct stacks of Python functions.
    pub stacks: u64,
    /// Distinct frames of native code.
    pub native_frames: u64,
    /// Places with sums.
    pub sites: u64,
    /// Records about objects, which are passed over.
    pub objects: u64,
    /// Samples of the resident memory.
    pub samples: u64,
    /// Time from the first of them to the last.
    pub sampled_ms: u64,
    /// The highest of them.
    pub peak_rss_bytes: Option<u64>,
}

/// What the timestamps of a run count, if they are not CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timestamps {
    /// Name of the clock of another program; `ordinal` if there was none, and rows only have an order.
    pub clock: String,
    /// What is counted: `nanoseconds`, `instructions`, `accesses`.
    pub unit: String,
}

impl Timestamps {
    /// There was no clock: timestamps count these.
    pub fn ordinal(unit: &str) -> Self {
        Self { clock: "ordinal".to_owned(), unit: unit.to_owned() }
    }

    /// Nanoseconds of a clock of another program.
    pub fn nanoseconds_of(clock: &str) -> Self {
        Self { clock: clock.to_owned(), unit: "nanoseconds".to_owned() }
    }

    /// Whether the timestamps are no times, so that nothing in seconds can be said.
    pub fn is_ordinal(&self) -> bool {
        self.clock == "ordinal"
    }
}

/// How the accesses of a run were labelled anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Relabelling {
    /// The run or trace that was read.
    pub input: PathBuf,
    /// When.
    pub relabelled_at_utc: String,
    /// Version of dwell that labelled it.
    pub dwell_version: String,
}
