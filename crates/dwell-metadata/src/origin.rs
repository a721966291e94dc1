//! Where a run that dwell did not record itself comes from.

use std::path::PathBuf;

use dwell_events::kv_blocks::KvBlocksReport;
use serde::{Deserialize, Serialize};

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
