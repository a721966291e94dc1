//! `metadata.json`: what ran, where, how it was watched, and what to think of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_analysis::energy::EnergyReport;
use dwell_analysis::memory::MemoryReport;
use dwell_analysis::quality::Quality;
use dwell_analysis::validity::{Validity, ValidityClass};
use dwell_events::engine::{Job, LoadedModel, StopReason, TimeResolution};
use dwell_events::host::{Baseline, Host, SensorSummary};
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::kv_blocks::KvBlocksReport;
use dwell_events::server::{Api, ServerDescription, StartKind, TracedProcess};
use dwell_events::{ClockAnchor, PhaseSpan, RequestSpan, RunKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Agreement, BuildOptions, ExperimentRun, Fallback, Generation, ImportOrigin, KvEventsImport, ObserverEffect,
    PageCache, Refusal, Relabelling, RunRequest, Timestamps,
};

/// Content of `metadata.json`. The same type is written and read.
///
/// A key that a file lacks is empty or `None`: runs of older versions, imported runs and runs of other programs say
/// less. [`RunMetadata::parse`] checks the version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunMetadata {
    /// Version of this file's structure.
    pub metadata_schema_version: String,
    /// The run.
    pub run_id: String,
    /// The model's name.
    pub model_id: String,
    /// `complete`, or `partial` if something that should be there is missing.
    pub state: String,
    /// When recording began.
    pub started_at_utc: String,
    /// When the run was imported; only imported runs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_at_utc: Option<String>,
    /// Version of dwell.
    pub dwell_version: String,
    /// Command line.
    pub command_line: Vec<String>,
    /// What both clocks said at the start; every other time is CLOCK_MONOTONIC.
    pub clock: Option<ClockAnchor>,
    /// The machine.
    pub host: Option<Host>,
    /// Name of the engine, or `imported`.
    pub engine: String,
    /// What a server said of itself.
    pub server: Option<ServerDescription>,
    /// Requests to a server.
    pub requests: Vec<RequestSpan>,
    /// In which state the model was to be when the run began.
    pub start: Option<StartKind>,
    /// How much of the model's file was in the page cache when the run began.
    pub page_cache: Option<PageCache>,
    /// What a server said of its KV blocks.
    pub kv_blocks: Option<KvBlocksReport>,
    /// Where the memory went, and what a token takes.
    pub memory: Option<MemoryReport>,
    /// Options that the engine was given, as written. One that an engine does not take is not there.
    pub options: BTreeMap<String, Value>,
    /// What the engine was told to do, as written.
    pub actions: Vec<Value>,
    /// What was loaded; missing if loading failed.
    pub model: Option<LoadedModel>,
    /// Phases with their first and last moment.
    pub phases: Vec<PhaseSpan>,
    /// Tokens and speed; missing if the worker did not finish.
    pub generation: Option<Generation>,
    /// Why sequences ended.
    pub stops: Vec<Stop>,
    /// How each table was obtained, by the table's name.
    pub tables: BTreeMap<String, TableOrigin>,
    /// How finely accesses are timed.
    pub time_resolution: Option<TimeResolution>,
    /// The experiment that the run belongs to.
    pub experiment: Option<ExperimentRun>,
    /// Collectors that were used, and those that could not be.
    pub collectors: CollectorUse,
    /// How far collectors agree that see the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreements: Vec<Agreement>,
    /// Energy of the machine, as far as its meters cover it; only runs with the collector `energy` have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyReport>,
    /// What the machine did before the run and during it.
    pub telemetry: Telemetry,
    /// What watching cost.
    pub observer_effect: Option<ObserverEffect>,
    /// Whether the run was disturbed.
    pub validity: Option<Validity>,
    /// Whether what was recorded is whole enough to be used.
    pub quality: Option<Quality>,
    /// How tables and figures were made.
    pub build: Option<BuildOptions>,
    /// Processes of the engine whose accesses are in the trace; none for the embedded one.
    pub processes: Vec<TracedProcess>,
    /// Distinct graphs.
    pub graphs: u64,
    /// Computations of graphs.
    pub graph_computations: u64,
    /// What computations loaded and stored of the KV cache; only traced runs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_accesses: Option<KvAccesses>,
    /// Why the worker failed, if it did.
    pub failure: Option<String>,
    /// What to do about the failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_hints: Vec<String>,
    /// Which recorded KV events the run was made from; only runs that `dwell import kv-events` made have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_events: Option<KvEventsImport>,
    /// What else the run was made from; only imported runs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<ImportOrigin>,
    /// What timestamps count; only imported runs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<Timestamps>,
    /// What was labelled anew; only relabelled runs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relabelled: Option<Relabelling>,
}

/// Collectors that were used, and those that could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorUse {
    /// Collectors that were used.
    pub used: Vec<String>,
    /// Collectors that were wanted and do not work here.
    pub fallbacks: Vec<Fallback>,
    /// Every collector that was tried and refused, fallbacks too, in the order in which they were tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// How each collector that was used obtains its figures, and what it costs, by its name.
    pub about: BTreeMap<String, CollectorAbout>,
}

/// How a collector obtains its figures, and what it costs. Texts, because a later version may know others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorAbout {
    /// How its figures are obtained.
    pub basis: String,
    /// What it costs, as measured for the version that recorded the run.
    pub cost: String,
}

/// What the machine did before the run and during it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// Before the run; none if that was not looked at.
    pub baseline: Option<Baseline>,
    /// During the run; none if the observer was killed.
    pub sensors: Option<SensorSummary>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The sequence.
    pub sequence: i32,
    /// Why.
    pub reason: StopReason,
}

/// How a table was obtained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableOrigin {
    /// Rows.
    pub rows: u64,
    /// How its figures were obtained.
    pub basis: String,
    /// Collector.
    pub source: String,
}

impl Default for RunMetadata {
    /// Knows nothing but the version.
    fn default() -> Self {
        Self {
            metadata_schema_version: Self::VERSION.to_owned(),
            run_id: String::new(),
            model_id: String::new(),
            state: String::new(),
            started_at_utc: String::new(),
            imported_at_utc: None,
            dwell_version: String::new(),
            command_line: Vec::new(),
            clock: None,
            host: None,
            engine: String::new(),
            server: None,
            requests: Vec::new(),
            start: None,
            page_cache: None,
            kv_blocks: None,
            memory: None,
            options: BTreeMap::new(),
            actions: Vec::new(),
            model: None,
            phases: Vec::new(),
            generation: None,
            stops: Vec::new(),
            tables: BTreeMap::new(),
            time_resolution: None,
            experiment: None,
            collectors: CollectorUse::default(),
            agreements: Vec::new(),
            energy: None,
            telemetry: Telemetry::default(),
            observer_effect: None,
            validity: None,
            quality: None,
            build: None,
            processes: Vec::new(),
            graphs: 0,
            graph_computations: 0,
            kv_accesses: None,
            failure: None,
            failure_hints: Vec::new(),
            kv_events: None,
            import: None,
            timestamps: None,
            relabelled: None,
        }
    }
}

impl RunMetadata {
    /// Version that this program writes. It reads every version with the same major part.
    pub const VERSION: &str = "1.10";

    /// Name of the model of an imported run unless the user gives one.
    pub const MODEL_OF_IMPORTS: &str = "imported";

    /// What is known of a run before it begins.
    pub fn of_request(request: &RunRequest) -> Self {
        Self {
            model_id: request.model_id.clone(),
            command_line: request.command_line.clone(),
            engine: request.job.engine.name().to_owned(),
            start: Some(request.job.server.start),
            options: given_options(&request.job),
            actions: as_written(&request.job.actions),
            experiment: request.experiment.clone(),
            build: Some(request.build.clone()),
            ..Self::default()
        }
    }

    /// What timestamps count if the recording had no clock, such as `instructions`; none if they are nanoseconds.
    pub fn time_unit(&self) -> Option<&str> {
        self.timestamps.as_ref().filter(|timestamps| timestamps.is_ordinal()).map(|timestamps| timestamps.unit.as_str())
    }

    /// Whether another program recorded the run.
    pub fn is_imported(&self) -> bool {
        self.import.is_some() || self.kv_events.is_some()
    }

    /// Where the run was imported from: its format and its files; none if dwell recorded it.
    pub fn imported_from(&self) -> Option<(&str, Vec<&Path>)> {
        if let Some(import) = &self.import {
            return Some((&import.format, import.files.iter().map(PathBuf::as_path).collect()));
        }
        let import = self.kv_events.as_ref()?;
        Some(("kv-events", import.files.iter().map(|file| file.path.as_path()).collect()))
    }

    /// What the run is for.
    pub fn kind(&self) -> RunKind {
        self.experiment.as_ref().map_or(RunKind::Single, |experiment| experiment.run_kind)
    }

    /// Whether the run was disturbed.
    pub fn validity_class(&self) -> ValidityClass {
        self.validity.as_ref().map_or(ValidityClass::Unknown, |validity| validity.class)
    }

    /// How many parameters the model has, if the runtime said.
    pub fn model_parameters(&self) -> Option<u64> {
        self.model.as_ref().map(|model| model.parameters).filter(|&parameters| parameters > 0)
    }

    /// Name of the processor.
    pub fn cpu_model(&self) -> Option<&str> {
        self.host.as_ref()?.cpu_model.as_deref()
    }

    /// A number among the options of the engine.
    pub fn option_number(&self, name: &str) -> Option<u64> {
        self.options.get(name).and_then(Value::as_u64)
    }

    /// A text among the options of the engine.
    pub fn option_text(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str)
    }

    /// A switch among the options of the engine.
    pub fn option_flag(&self, name: &str) -> Option<bool> {
        self.options.get(name).and_then(Value::as_bool)
    }

    /// Type of keys and values in the KV cache; `k/v` if they differ.
    pub fn kv_type(&self) -> Option<String> {
        kv_type_name(self.option_text("kv_type_k"), self.option_text("kv_type_v"))
    }

    /// The most tokens that any action asks for.
    pub fn most_output_tokens(&self) -> Option<u64> {
        self.actions.iter().filter_map(|action| action["max_tokens"].as_u64()).max()
    }
}

/// One name for the types of keys and values: `k/v` if they differ.
pub fn kv_type_name(keys: Option<&str>, values: Option<&str>) -> Option<String> {
    match (keys, values) {
        (Some(keys), Some(values)) if keys != values => Some(format!("{keys}/{values}")),
        (keys, values) => keys.or(values).map(str::to_owned),
    }
}

/// The options that reach the engine of a job. A job has a value for every option of the embedded engine, whatever runs it.
fn given_options(job: &Job) -> BTreeMap<String, Value> {
    let mut options: BTreeMap<String, Value> = as_written(&job.options);
    let template_by = template_by(job);
    if !job.engine.is_embedded() {
        options.insert("chat_template".to_owned(), template_by.is_some().into());
    }
    let (profile, is_joined) = (job.engine.profile(), job.server.url.is_some());
    let has_file = !job.options.model.as_os_str().is_empty();
    options.retain(|name, _| profile.takes_option(name, is_joined) && (name != "model" || has_file));
    if options.contains_key("chat_template") {
        options.extend(template_by.map(|name| ("template_by".to_owned(), name.into())));
    }
    options
}

/// Who puts a prompt into a chat template, of engines that are programs of their own: a server that is asked for a chat has
/// its own idea of the template, and other tokens come of it.
fn template_by(job: &Job) -> Option<&'static str> {
    match (job.server.api, &job.server.template) {
        _ if job.engine.is_embedded() => None,
        (Api::Chat, _) => Some("server"),
        (Api::Completion, Some(_)) => Some("dwell"),
        (Api::Completion, None) => None,
    }
}

/// A value as the file has it. It goes through text because an `f32` that becomes a [`Value`] directly gets digits that
/// the text does not have: 0.7 would be 0.699999988079071.
fn as_written<T: Serialize, W: DeserializeOwned + Default>(value: &T) -> W {
    serde_json::to_string(value).and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
}
