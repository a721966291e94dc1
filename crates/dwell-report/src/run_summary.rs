//! What a run says, in short: for the terminal, for reports and for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_analysis::energy::EnergyReport;
use dwell_analysis::memory::MemoryReport;
use dwell_analysis::quality::Quality;
use dwell_analysis::validity::Validity;
use dwell_analysis::{Definitions, MetricsReport, NotRatedReason, SuitabilityThresholds};
use dwell_events::Severity;
use dwell_events::engine::TimeResolution;
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::loss::LossRow;
use dwell_events::server::ServerDescription;
use dwell_metadata::{
    Agreement, CollectorUse, Generation, MemrayImport, ObserverEffect, RunMetadata, Stop, TableOrigin,
};
use serde::Serialize;

use crate::numbers::seconds;
use crate::page::RunReport;
use crate::text::{counted, model_title_of};

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
    /// Why each sequence ended.
    pub stops: Vec<Stop>,
    /// Positions that the context has; none if the engine does not say.
    pub context_length: Option<u32>,
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
    /// Collectors that were used, and those that were refused.
    pub collectors: CollectorUse,
    /// How each table was obtained.
    pub tables: BTreeMap<String, TableOrigin>,
    /// How far collectors agree that see the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreements: Vec<Agreement>,
    /// Energy of the machine, as far as its meters cover it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyReport>,
    /// Recorded allocations that the run was made from, instead of accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<MemrayImport>,
    /// What was not seen.
    pub loss: Vec<LossSummary>,
    /// What the memory did.
    #[serde(flatten)]
    pub regions: RegionsSummary,
    /// What watching cost.
    pub observer_effect: ObserverEffect,
    /// Whether the run counts, and what keeps it from being clean.
    pub validity: Option<Validity>,
    /// Whether what was recorded is whole enough to be used.
    pub quality: Option<Quality>,
    /// Highest resident memory of the observer, including the building of the tables after the run. What it took beside the
    /// run is in `observer_effect`.
    pub observer_peak_rss_bytes: Option<u64>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What to do about the failure.
    pub failure_hints: Vec<String>,
    /// The page that shows the run, if it has one.
    pub report: Option<PathBuf>,
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

/// What the memory of a run did, by region type, and what that rests on.
#[derive(Clone, Debug, Serialize)]
pub struct RegionsSummary {
    /// Over what time accesses were seen; none if the recording had no clock.
    pub window_s: Option<f64>,
    /// What timestamps count instead, and how many of them accesses were seen over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_counts: Option<Counts>,
    /// Steps that were seen: prompts, and tokens of each sequence; 0 if the trace has none.
    pub steps: u64,
    /// Mean time between two times that accesses have; none if the recording had no clock.
    pub time_resolution_s: Option<f64>,
    /// Whose definitions the figures follow.
    pub definitions: &'static str,
    /// Tokens per second of one sequence that suitability holds at; none if seconds are those of the recording.
    pub rated_at_tokens_per_s: Option<f64>,
    /// From which figures on a class is given.
    pub thresholds: SuitabilityThresholds,
    /// What was decoded; none if the engine did not tell.
    #[serde(skip)]
    pub decoding: Option<Decoding>,
    /// One entry per region type.
    pub regions: Vec<RegionSummary>,
}

/// How many of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// How many.
    pub number: u64,
    /// Of what, such as `instructions`.
    pub unit: String,
}

impl Counts {
    /// What a trace without times covers.
    fn of_window(metrics: &MetricsReport) -> Option<Self> {
        let window = metrics.window?;
        let number = window.last_ns.saturating_sub(window.first_ns);
        metrics.time_unit.clone().map(|unit| Self { number, unit })
    }
}

/// Tokens that decode steps gave.
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    /// How many.
    pub tokens: f64,
    /// In what time.
    pub seconds: f64,
}

impl Decoding {
    /// None if nothing was decoded, or in no known time.
    fn of(generation: &Generation) -> Option<Self> {
        let seconds = generation.decode_ns as f64 / 1e9;
        let tokens = generation.decode_tokens_per_s? * seconds;
        (tokens > 0.0).then_some(Self { tokens, seconds })
    }
}

impl RegionsSummary {
    /// From a report, and what the engine says that it generated.
    pub fn new(metrics: &MetricsReport, generation: Option<&Generation>) -> Self {
        let first = metrics.region_types.first();
        Self {
            window_s: metrics.has_times().then(|| metrics.window.map_or(0.0, |window| window.duration_s())),
            window_counts: Counts::of_window(metrics),
            steps: first.map_or(0, |row| row.steps),
            time_resolution_s: first.filter(|_| metrics.has_times()).and_then(|row| row.time_resolution_s),
            definitions: metrics.definitions.name(),
            rated_at_tokens_per_s: first.and_then(|row| row.suitability.tokens_per_s),
            thresholds: metrics.thresholds,
            decoding: generation.and_then(Decoding::of),
            regions: RegionSummary::all(metrics),
        }
    }

    /// Whether steps can serve as a clock.
    pub fn has_steps(&self) -> bool {
        self.rated_at_tokens_per_s.is_some()
    }

    /// Whether figures are of lives; those of mrm-trace are of regions.
    pub(crate) fn is_by_lives(&self) -> bool {
        self.definitions == Definitions::Dwell.name()
    }

    /// What to do to give every region type a class.
    pub(crate) fn how_to_decide(&self) -> String {
        match decisive_steps(&self.thresholds, self.rated_at_tokens_per_s) {
            // The prompt is a step and gives the first token, so there are as many steps as tokens.
            Some(decisive) if decisive > self.steps && self.decoding.is_some() => {
                format!("repeat with --max-tokens {decisive} or more")
            }
            _ => format!("{} would decide", decided_by(&self.thresholds, self.rated_at_tokens_per_s, self.steps)),
        }
    }
}

/// What would give every region type a class that the run was too short for: `201 steps`. Without steps, a time of use.
pub(crate) fn decided_by(thresholds: &SuitabilityThresholds, tokens_per_s: Option<f64>, steps: u64) -> String {
    match decisive_steps(thresholds, tokens_per_s) {
        Some(decisive) if decisive <= steps => "a longer run".to_owned(),
        Some(decisive) => counted(decisive, "step"),
        None => format!("{} of use", seconds(decisive_s(thresholds))),
    }
}

/// Steps that give every region type a class; none without steps.
pub(crate) fn decisive_steps(thresholds: &SuitabilityThresholds, tokens_per_s: Option<f64>) -> Option<u64> {
    // One more, in which what is to last so long is stored.
    tokens_per_s.map(|tokens_per_s| ((decisive_s(thresholds) * tokens_per_s).ceil() as u64).saturating_add(1))
}

fn decisive_s(thresholds: &SuitabilityThresholds) -> f64 {
    thresholds.high_retention_s.max(thresholds.medium_retention_s)
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
    /// Bytes loaded while decoding.
    pub decode_bytes_read: Option<u64>,
    /// Bytes stored while decoding.
    pub decode_bytes_written: Option<u64>,
    /// Bytes loaded per byte stored.
    pub read_write_ratio: Option<f64>,
    /// How long half of the data was needed; none if the run ended before.
    pub retention_p50_s: Option<f64>,
    /// It is at least this.
    pub retention_p50_low_s: Option<f64>,
    /// How long all but a hundredth was needed at most; none if the run ended before.
    pub retention_p99_s: Option<f64>,
    /// It is at least this.
    pub retention_p99_low_s: Option<f64>,
    /// How long all but a hundredth is needed at the speed that the class holds at; none if the run ended before.
    pub needed_p99_s: Option<f64>,
    /// It is at least this.
    pub needed_p99_low_s: Option<f64>,
    /// How long half of it is needed at that speed; none if the run ended before.
    pub needed_p50_s: Option<f64>,
    /// It is at least this.
    pub needed_p50_low_s: Option<f64>,
    /// How long half of the data stays at that speed until it is overwritten or evicted; none if the run ended before.
    pub stays_p50_s: Option<f64>,
    /// It is at least this.
    pub stays_p50_low_s: Option<f64>,
    /// Share of what is stored that stays for the retention of `high_mrm` at that speed, at least.
    pub kept_low_share: Option<f64>,
    /// The same, at most.
    pub kept_high_share: Option<f64>,
    /// The same in steps.
    pub retention_p99_steps: Option<f64>,
    /// It is at least this.
    pub retention_p99_low_steps: Option<f64>,
    /// How long half of the data stayed in this run until it was overwritten or evicted; none if the run ended before.
    pub residency_p50_s: Option<f64>,
    /// It is at least this.
    pub residency_p50_low_s: Option<f64>,
    /// Share of the lives that had not ended when the run did.
    pub censored_share: Option<f64>,
    /// Share of the lives that were never read.
    pub never_read_share: Option<f64>,
    /// Share of stored bytes that were stored once.
    pub write_once_ratio: Option<f64>,
    /// Class of suitability.
    pub suitability: &'static str,
    /// Why there is no class.
    pub not_rated_reason: Option<&'static str>,
    /// Whether a longer run would give a class.
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
            stops: metadata.stops.clone(),
            context_length: metadata.model.as_ref().map(|model| model.context_length).filter(|length| *length > 0),
            memory: metadata.memory.clone(),
            generation: metadata.generation,
            time_resolution: metadata.time_resolution,
            accesses: metrics.trace_rows,
            unknown_accesses: unknown.map_or(0, |row| row.read_frequency.loads + row.read_frequency.stores),
            kv_accesses: metadata.kv_accesses,
            collectors: metadata.collectors.clone(),
            tables: metadata.tables.clone(),
            agreements: metadata.agreements.clone(),
            energy: metadata.energy.clone(),
            allocations: allocations(metadata),
            loss,
            regions: RegionsSummary::new(metrics, metadata.generation.as_ref()),
            observer_effect: metadata.observer_effect.clone().unwrap_or_default(),
            validity: metadata.validity.clone(),
            quality: metadata.quality.clone(),
            observer_peak_rss_bytes: observer_peak_rss_bytes(metadata),
            failure: metadata.failure.clone(),
            failure_hints: metadata.failure_hints.clone(),
            report: Some(run_dir.join(RunReport::FILE_NAME)).filter(|report| report.is_file()),
        }
    }
}

/// What captures of memray held; none for a run that was not made from them.
fn allocations(metadata: &RunMetadata) -> Option<MemrayImport> {
    let import = metadata.import.as_ref().filter(|import| import.format == "memray")?;
    serde_json::from_value(serde_json::Value::Object(import.found.clone())).ok()
}

/// Runs of earlier versions say only how much memory the observer took while it recorded.
fn observer_peak_rss_bytes(metadata: &RunMetadata) -> Option<u64> {
    let effect = metadata.observer_effect.as_ref()?;
    effect.observer_peak_rss_bytes.or(effect.observer.rss_peak_bytes)
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
            decode_bytes_read: row.read_frequency.decode_bytes_read,
            decode_bytes_written: row.read_frequency.decode_bytes_written,
            read_write_ratio: row.read_frequency.read_write_ratio,
            retention_p50_s: row.retention.p50_s,
            retention_p50_low_s: row.retention.p50_low_s,
            retention_p99_s: row.retention.p99_s,
            retention_p99_low_s: row.retention.p99_low_s,
            needed_p99_s: row.suitability.needed_p99_s,
            needed_p99_low_s: row.suitability.needed_p99_low_s,
            needed_p50_s: row.suitability.needed_p50_s,
            needed_p50_low_s: row.suitability.needed_p50_low_s,
            stays_p50_s: row.suitability.stays_p50_s,
            stays_p50_low_s: row.suitability.stays_p50_low_s,
            kept_low_share: row.suitability.kept_low_share,
            kept_high_share: row.suitability.kept_high_share,
            retention_p99_steps: row.retention.p99_steps,
            retention_p99_low_steps: row.retention.p99_low_steps,
            residency_p50_s: row.retention.residency_p50_s,
            residency_p50_low_s: row.retention.residency_p50_low_s,
            censored_share: row.retention.censored_share,
            never_read_share: row.retention.never_read_share,
            write_once_ratio: row.write_once.ratio,
            suitability: row.suitability.class.name(),
            not_rated_reason: row.suitability.not_rated_because.map(NotRatedReason::name),
            is_window_limited: row.suitability.is_window_limited,
            basis: row.retention.basis.name(),
        };
        let with_times = metrics.region_types.iter().map(entry);
        if metrics.has_times() { with_times.collect() } else { with_times.map(Self::without_times).collect() }
    }

    /// The same where timestamps are no times.
    fn without_times(self) -> Self {
        Self {
            retention_p50_s: None,
            retention_p50_low_s: None,
            retention_p99_s: None,
            retention_p99_low_s: None,
            needed_p99_s: None,
            needed_p99_low_s: None,
            needed_p50_s: None,
            needed_p50_low_s: None,
            stays_p50_s: None,
            stays_p50_low_s: None,
            kept_low_share: None,
            kept_high_share: None,
            residency_p50_s: None,
            residency_p50_low_s: None,
            is_window_limited: false,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_a_class_is_a_number_of_steps_or_a_time() {
        let thresholds = SuitabilityThresholds::default();
        assert_eq!(decided_by(&thresholds, Some(20.0), 64), "201 steps");
        assert_eq!(decided_by(&thresholds, Some(20.0), 201), "a longer run");
        assert_eq!(decided_by(&thresholds, None, 0), "10.0 s of use");
        let endless = decided_by(&thresholds, Some(1e308), 64);
        assert!(endless.ends_with(" steps"), "{endless}");
    }
}
