//! What a run says, in short: for the terminal, for reports and for programs.

use std::path::{Path, PathBuf};

use dwell_analysis::MetricsReport;
use dwell_analysis::memory::MemoryReport;
use dwell_analysis::quality::Quality;
use dwell_analysis::validity::Validity;
use dwell_events::Severity;
use dwell_events::engine::TimeResolution;
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::loss::LossRow;
use dwell_events::server::ServerDescription;
use dwell_metadata::{Generation, ObserverEffect, RunMetadata};
use serde::Serialize;

use crate::text::model_title_of;

/// What a run says, in short.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// The run directory.
    pub run_dir: PathBuf,
    /// The run.
    pub run_id: String,
    /// The model's name.
    pub model_id: String,
    /// The runtime's description of the model.
    pub model: Option<String>,
    /// The model in words: name, parameters, type of the weights.
    pub model_title: String,
    /// What ran it.
    pub engine: String,
    /// What a server said of itself.
    pub server: Option<ServerDescription>,
    /// `complete` or `partial`.
    pub state: String,
    /// Tokens and speed.
    pub generation: Option<Generation>,
    /// Where the memory went, and what a token takes.
    pub memory: Option<MemoryReport>,
    /// How finely accesses are timed.
    pub time_resolution: Option<TimeResolution>,
    /// Rows of the trace.
    pub accesses: u64,
    /// Rows of the trace whose memory is not attributed.
    pub unknown_accesses: u64,
    /// What computations loaded and stored of the KV cache, if that was traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_accesses: Option<KvAccesses>,
    /// What was not seen.
    pub loss: Vec<LossSummary>,
    /// Over what time accesses were seen.
    pub window_s: f64,
    /// Whose definitions the figures follow.
    pub definitions: &'static str,
    /// One entry per region type.
    pub regions: Vec<RegionSummary>,
    /// What watching cost.
    pub observer_effect: ObserverEffect,
    /// Whether the run counts, and what keeps it from being clean.
    pub validity: Option<Validity>,
    /// Whether what was recorded is whole enough to be used.
    pub quality: Option<Quality>,
    /// Highest resident memory of the observer, including the building of the tables.
    pub observer_peak_rss_bytes: Option<u64>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What to do about the failure.
    pub failure_hints: Vec<String>,
}

/// One kind of loss.
#[derive(Clone, Debug, Serialize)]
pub struct LossSummary {
    /// What is missing.
    pub kind: String,
    /// Whether rows are missing because of it.
    pub is_data_loss: bool,
    /// How often.
    pub count: u64,
    /// How many bytes, where that is known.
    pub bytes: Option<u64>,
    /// What exactly.
    pub detail: String,
}

/// One region type.
#[derive(Clone, Debug, Serialize)]
pub struct RegionSummary {
    /// The type.
    pub region_type: String,
    /// Distinct bytes that were touched.
    pub size_bytes: u64,
    /// Bytes loaded.
    pub bytes_read: Option<u64>,
    /// Bytes stored.
    pub bytes_written: Option<u64>,
    /// Bytes loaded per byte stored.
    pub read_write_ratio: Option<f64>,
    /// How long half of the data had to be kept.
    pub retention_p50_s: Option<f64>,
    /// How long all but a hundredth had to be kept at most.
    pub retention_p99_s: Option<f64>,
    /// Share of stored bytes that were stored once.
    pub write_once_ratio: Option<f64>,
    /// Class of suitability.
    pub suitability: &'static str,
    /// Whether a longer run could give a better class.
    pub is_window_limited: bool,
    /// How the figures were obtained.
    pub basis: &'static str,
}

impl RunSummary {
    /// From what is known of a run that was built.
    pub fn new(run_dir: &Path, metadata: &RunMetadata, metrics: &MetricsReport, loss: Vec<LossSummary>) -> Self {
        let unknown = metrics.region_types.iter().find(|row| row.region_type.to_string() == "unknown");
        Self {
            run_dir: run_dir.to_owned(),
            run_id: metadata.run_id.clone(),
            model_id: metadata.model_id.clone(),
            model: metadata.model.as_ref().map(|model| model.description.clone()),
            model_title: model_title_of(metadata),
            engine: metadata.engine.clone(),
            server: metadata.server.clone(),
            state: metadata.state.clone(),
            memory: metadata.memory.clone(),
            generation: metadata.generation,
            time_resolution: metadata.time_resolution,
            accesses: metrics.trace_rows,
            unknown_accesses: unknown.map_or(0, |row| row.read_frequency.loads + row.read_frequency.stores),
            kv_accesses: metadata.kv_accesses,
            loss,
            window_s: metrics.window.map_or(0.0, |window| window.duration_s()),
            definitions: metrics.definitions.name(),
            regions: RegionSummary::all(metrics),
            observer_effect: metadata.observer_effect.clone().unwrap_or_default(),
            validity: metadata.validity.clone(),
            quality: metadata.quality.clone(),
            observer_peak_rss_bytes: metadata.observer_effect.as_ref().and_then(|effect| effect.observer_peak_rss_bytes),
            failure: metadata.failure.clone(),
            failure_hints: metadata.failure_hints.clone(),
        }
    }
}

impl From<&LossRow> for LossSummary {
    fn from(row: &LossRow) -> Self {
        Self {
            kind: row.kind.name().to_owned(),
            is_data_loss: row.kind.severity() == Severity::DataLoss,
            count: row.count,
            bytes: row.bytes,
            detail: row.detail.clone(),
        }
    }
}

impl RegionSummary {
    /// One entry per region type of a report.
    pub fn all(metrics: &MetricsReport) -> Vec<Self> {
        let entry = |row: &dwell_analysis::RegionTypeRow| Self {
            region_type: row.region_type.to_string(),
            size_bytes: row.working_set.distinct_bytes,
            bytes_read: row.read_frequency.bytes_read,
            bytes_written: row.read_frequency.bytes_written,
            read_write_ratio: row.read_frequency.read_write_ratio,
            retention_p50_s: row.retention.p50_s,
            retention_p99_s: row.retention.p99_s,
            write_once_ratio: row.write_once.ratio,
            suitability: row.suitability.class.name(),
            is_window_limited: row.suitability.is_window_limited,
            basis: row.retention.basis.name(),
        };
        metrics.region_types.iter().map(entry).collect()
    }
}
