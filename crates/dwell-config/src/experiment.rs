//! An experiment: what an experiment file says, with every default filled in.

use std::path::PathBuf;

use dwell_events::engine::{EngineKind, KvType, TimeResolution};
use dwell_events::server::StartKind;
use dwell_events::{About, CollectorName, Compression, Definitions, Metric, UnknownPolicy};
use serde::{Deserialize, Serialize};

use crate::server::ServerConfig;
use crate::values::{Dtype, Figures};

/// An experiment with every default filled in. What each key does is in [`crate::keys`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is and whose.
    pub experiment: About,
    /// Models, in the order in which they are run.
    pub models: Vec<ModelConfig>,
    /// What is combined with what.
    pub sweep: Sweep,
    /// What the models are asked.
    pub prompts: PromptsConfig,
    /// Who observes.
    pub collectors: CollectorsConfig,
    /// What is measured of the machine.
    pub telemetry: TelemetryConfig,
    /// How accesses get their region.
    pub labeller: LabellerConfig,
    /// Which figures are computed, and how.
    pub analyser: AnalyserConfig,
    /// Where results go.
    pub output: OutputConfig,
}

/// One model of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Name in this experiment; a folder name.
    pub id: String,
    /// What runs it.
    pub engine: EngineKind,
    /// GGUF file, as written: relative to the experiment file.
    pub path: Option<PathBuf>,
    /// Name of a model that `dwell model pull` knows.
    pub name: Option<String>,
    /// Architecture that the file must have.
    pub family: Option<String>,
    /// Number of parameters that the file must have, within 5 %.
    pub params: Option<u64>,
    /// Quantised type that most matrices of the file must have, in lower case.
    pub quantisation: Option<String>,
    /// Unquantised type that most matrices of the file must have.
    pub dtype: Option<Dtype>,
    /// How a runtime other than the embedded one is reached or started.
    pub server: ServerConfig,
}

/// What is combined with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Positions in the KV cache, over all sequences.
    pub context_lengths: Vec<u32>,
    /// Sequences side by side.
    pub batch_sizes: Vec<u32>,
    /// Tokens generated after each prompt, per sequence.
    pub output_tokens: Vec<u32>,
    /// Types of keys and values.
    pub kv_cache_types: Vec<KvType>,
    /// Whether attention runs as one fused operation.
    pub flash_attention: Vec<bool>,
    /// Threads that compute; absent means one per processor.
    pub threads: Option<Vec<u32>>,
    /// States in which the model is when a run begins.
    pub starts: Vec<StartKind>,
    /// Recorded runs of each combination.
    pub repetitions: u32,
    /// Runs of each combination before those, which do not count.
    pub warmup_runs: u32,
}

/// What the models are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptsConfig {
    /// `builtin`, or a file as written: relative to the experiment file.
    pub source: String,
    /// Categories that are used; empty means all.
    pub categories: Vec<String>,
}

impl PromptsConfig {
    /// Value of `source` that means the prompts that dwell has.
    pub const BUILTIN: &'static str = "builtin";

    /// The prompt file, or `None` for the built-in prompts.
    pub fn file(&self) -> Option<PathBuf> {
        (self.source != Self::BUILTIN).then(|| PathBuf::from(&self.source))
    }
}

/// Who observes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectorsConfig {
    /// Collectors, all of which are used.
    #[serde(rename = "use")]
    pub used: Vec<CollectorName>,
    /// What may take the place of one that does not work here, in this order; empty means that nothing may.
    pub fallback: Vec<CollectorName>,
    /// Options of `tensor_ops`.
    pub tensor_ops: TensorOpsConfig,
    /// Options of `process`.
    pub process: ProcessConfig,
}

/// Options of the collector `tensor_ops`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorOpsConfig {
    /// How finely accesses are timed.
    pub time_resolution: TimeResolution,
}

/// Options of the collector `process`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Time between two samples.
    pub sample_interval_ms: u64,
}

/// What is measured of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    /// How long the machine is watched before each run.
    pub baseline_secs: f64,
    /// Time between two readings of temperature, frequency and throttling.
    pub sensor_interval_ms: u64,
    /// Whether throttling lowers the validity of a run.
    pub invalidate_on_throttle: bool,
    /// Whether each combination is also run without being recorded.
    pub measure_slowdown: bool,
}

/// How accesses get their region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabellerConfig {
    /// Rules file, as written: relative to the experiment file. Absent means the rules that dwell has.
    pub rules_file: Option<PathBuf>,
    /// What becomes of accesses to memory of no known region.
    pub unknown_policy: UnknownPolicy,
}

/// Which figures are computed, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyserConfig {
    /// Figures.
    pub metrics: Vec<Metric>,
    /// Whose definitions they follow.
    pub definitions: Definitions,
    /// Thresholds of the suitability classes.
    pub thresholds: ThresholdsConfig,
    /// Bins of the histograms.
    pub bins: u32,
}

/// Thresholds of the suitability classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdsConfig {
    /// Share of stored data that stays for `high_retention_s`, of `high_mrm`.
    pub high_write_once: f64,
    /// Retention p99 of `high_mrm`.
    pub high_retention_s: f64,
    /// Share of stored data that stays for `medium_retention_s`, of `medium_mrm`.
    pub medium_write_once: f64,
    /// Retention p50 of `medium_mrm`.
    pub medium_retention_s: f64,
    /// Tokens per second of one sequence that the classes hold at. Left out at its default, so that experiments that began
    /// before the key existed are the same still.
    #[serde(default = "usual_tokens_per_sec", skip_serializing_if = "is_usual_tokens_per_sec")]
    pub at_tokens_per_sec: f64,
}

fn usual_tokens_per_sec() -> f64 {
    20.0
}

fn is_usual_tokens_per_sec(value: &f64) -> bool {
    *value == usual_tokens_per_sec()
}

/// Where results go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Folder of the results, as written: relative to the working directory.
    pub base_dir: PathBuf,
    /// How tables are compressed.
    pub compression: Compression,
    /// Which figures are drawn.
    pub figures: Figures,
}
