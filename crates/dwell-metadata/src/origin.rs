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

/// The recording of perf that a run was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PerfImport {
    /// The file, or `-` for the standard input.
    pub file: PathBuf,
    /// `perf.data` or `perf script`.
    pub form: String,
    /// Events by name, with their samples.
    pub events: BTreeMap<String, u64>,
    /// Clock of the times: `CLOCK_MONOTONIC`, another of `clock_gettime`, `scheduler`, or `unknown`.
    pub clock: String,
    /// Name of the machine, if known.
    pub hostname: Option<String>,
    /// Release of its kernel.
    pub os_release: Option<String>,
    /// Its processor.
    pub cpu: Option<String>,
    /// Version of perf.
    pub perf_version: Option<String>,
    /// Command line of `perf record`.
    pub recorded_with: Vec<String>,
    /// MHz by which cycles became nanoseconds; none if that was not asked for.
    pub cpu_mhz: Option<u64>,
    /// Samples that became accesses, and the others by reason.
    pub samples: BTreeMap<String, u64>,
    /// Files with the sampled instructions, by whether their functions could be named; none for texts, which name them.
    pub objects: Option<BTreeMap<String, u64>>,
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

/// What a run was made from that another program recorded, unless a key of its own says it.
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
