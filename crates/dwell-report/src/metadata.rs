//! What is read of a run's `metadata.json`. Keys that an older run lacks are empty; keys that are not used are ignored.

use std::collections::BTreeMap;

use dwell_analysis::memory::MemoryReport;
use dwell_analysis::quality::Quality;
use dwell_analysis::validity::{Validity, ValidityClass};
use dwell_events::server::ServerFacts;
use dwell_events::{About, RunKind};
use serde::Deserialize;
use serde_json::Value;

/// The part of `metadata.json` that is aggregated and published.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunMetadata {
    /// The run.
    pub run_id: String,
    /// The model.
    pub model_id: String,
    /// `complete` or `partial`; `unfinished` if there is no metadata.
    pub state: String,
    /// When recording began.
    pub started_at_utc: String,
    /// Version of dwell.
    pub dwell_version: String,
    /// Name of the engine.
    pub engine: String,
    /// The machine.
    pub host: Host,
    /// Options of the engine, as written.
    pub options: BTreeMap<String, Value>,
    /// What the engine did, as written.
    pub actions: Vec<Value>,
    /// What was loaded.
    pub model: Option<Model>,
    /// Tokens and speed.
    pub generation: Option<Generation>,
    /// How each table was obtained.
    pub tables: BTreeMap<String, TableFacts>,
    /// What watching cost.
    pub observer_effect: ObserverEffect,
    /// The experiment that the run belongs to.
    pub experiment: Option<Experiment>,
    /// Whether the run was disturbed; runs of older versions do not say.
    pub validity: Option<Validity>,
    /// Whether its tables are good enough; runs of older versions do not say.
    pub quality: Option<Quality>,
    /// How tables and figures were made.
    pub build: Build,
    /// Why the worker failed.
    pub failure: Option<String>,
    /// What a server said of itself.
    pub server: Option<ServerFacts>,
    /// In which state the model was to be when the run began; runs of older versions do not say.
    pub start: Option<String>,
    /// Memory per token; runs of older versions do not say.
    pub memory: Option<MemoryReport>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Name of the processor.
    pub cpu_model: Option<String>,
    /// Processors that the run could use.
    pub cpus: Option<u32>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Name of the distribution.
    pub os: Option<String>,
    /// Architecture.
    pub architecture: Option<String>,
}

/// What was loaded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Model {
    /// The runtime's description.
    pub description: String,
    /// Parameters.
    pub parameters: u64,
    /// Version of the runtime.
    pub runtime: String,
}

/// Tokens and speed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Tokens per second in decode steps.
    pub decode_tokens_per_s: Option<f64>,
}

/// How a table was obtained.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TableFacts {
    /// Rows.
    pub rows: u64,
    /// How its figures were obtained.
    pub basis: String,
    /// Collector.
    pub source: String,
}

/// What watching cost.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObserverEffect {
    /// The process that runs the model.
    pub worker: ProcessCost,
    /// The process that watches.
    pub observer: ProcessCost,
    /// Speed against the same work without recording, if that was measured.
    pub slowdown: Option<Slowdown>,
}

/// Speed while recording, as a share of the speed without.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Slowdown {
    /// Of prompt steps.
    pub prompt_speed_share: Option<f64>,
    /// Of decode steps.
    pub decode_speed_share: Option<f64>,
}

/// CPU and memory of one process.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProcessCost {
    /// Mean CPU use, 100 is one core.
    pub cpu_mean_pct: Option<f64>,
    /// Highest resident memory among the samples.
    pub rss_peak_bytes: Option<u64>,
}

/// The experiment that a run belongs to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Experiment {
    /// Its id.
    pub id: String,
    /// What it is and whose.
    #[serde(flatten)]
    pub about: About,
    /// What the run is for.
    pub run_kind: RunKind,
}

/// How tables and figures were made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Build {
    /// How metrics were computed.
    pub analysis: Analysis,
}

/// How metrics were computed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Analysis {
    /// Thresholds of suitability, as written; runs of older versions do not say.
    pub thresholds: Option<Value>,
}

impl RunMetadata {
    /// What the run is for.
    pub fn kind(&self) -> RunKind {
        self.experiment.as_ref().map_or(RunKind::Single, |experiment| experiment.run_kind)
    }

    /// Whether it was disturbed.
    pub fn validity_class(&self) -> ValidityClass {
        self.validity.as_ref().map_or(ValidityClass::Unknown, |validity| validity.class)
    }

    /// How many parameters the model has, if the runtime said.
    pub(crate) fn model_parameters(&self) -> Option<u64> {
        self.model.as_ref().map(|model| model.parameters).filter(|&parameters| parameters > 0)
    }

    /// A number among the options of the engine.
    pub(crate) fn option_number(&self, name: &str) -> Option<u64> {
        self.options.get(name).and_then(Value::as_u64)
    }

    /// A text among the options of the engine.
    pub(crate) fn option_text(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str)
    }
}
