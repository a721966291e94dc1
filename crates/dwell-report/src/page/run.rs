//! The page of one run, from its files.

use std::path::Path;

use dwell_analysis::metrics::type_columns;
use dwell_analysis::overview::Overview;
use dwell_analysis::{Options, SuitabilityThresholds, Value};
use dwell_events::schema::Table;
use dwell_files::{FileError, read_json};
use dwell_metadata::{RunMetadata, RunView, ViewedRun};
use dwell_metrics::draw_run;
use dwell_observe::Line;
use dwell_store::{RunDir, RunState};
use serde::Serialize;
use serde_json::Value as Json;

use super::run_regions::{RegionRow, answer, region_rows};
use super::run_timeline::Timeline;
use super::run_trust::{trust, trust_while_recording};
use super::{Page, Statement, report_html};
use crate::run_on_disk::losses;
use crate::run_results::{MetricsLine, RunResults, read_metrics};
use crate::text::{model_title_of, speed_line};
use crate::{LossSummary, ReportError};

/// What a page says of a run.
#[derive(Debug, Serialize)]
pub struct RunPage {
    run_id: String,
    model: String,
    engine: String,
    machine: String,
    recorded_utc: Option<String>,
    time_unit: Option<String>,
    state: String,
    headline: String,
    answer: String,
    trust: Vec<Statement>,
    pub(crate) regions: Vec<RegionRow>,
    pub(crate) timeline: Timeline,
    pub(crate) overview: Overview,
    pub(crate) memory_parts: Vec<MemoryPart>,
    kv_per_token: Option<KvPerToken>,
    pub(crate) thresholds: Thresholds,
    metrics: MetricsTable,
}

#[derive(Debug, Serialize)]
pub(crate) struct MemoryPart {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) bytes: i64,
    pub(crate) source: &'static str,
}

#[derive(Debug, Serialize)]
struct KvPerToken {
    measured_bytes: Option<f64>,
    theoretical_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Thresholds {
    pub(crate) high_retention_s: f64,
    pub(crate) medium_retention_s: f64,
    high_write_once: f64,
    medium_write_once: f64,
    pub(crate) at_tokens_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct MetricColumn {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct MetricsTable {
    columns: Vec<MetricColumn>,
    rows: Vec<Vec<Json>>,
}

/// What the parts of a page are made from.
pub(super) struct RunFiles<'a> {
    pub(super) path: &'a Path,
    pub(super) metadata: &'a RunMetadata,
    pub(super) metrics: Vec<MetricsLine>,
    pub(super) losses: Vec<LossSummary>,
}

impl RunPage {
    /// The page of a run that is on disk.
    pub fn load(run: &RunDir) -> Result<Self, ReportError> {
        let results = RunResults::load(run)?;
        let overview = overview_of(run, &results)?;
        let files = RunFiles {
            path: run.path(),
            metadata: &results.metadata,
            metrics: results.metrics,
            losses: losses(run.path())?,
        };
        Self::new(&files, overview)
    }

    /// The same page of a run that goes on: what is judged at the end of a run is left out.
    pub fn while_recording(self) -> Self {
        let regions: Vec<RegionRow> = self.regions.into_iter().map(RegionRow::while_recording).collect();
        Self {
            state: RunState::Recording.name().to_owned(),
            answer: answer(&regions, self.thresholds.at_tokens_per_s),
            trust: trust_while_recording(self.trust),
            regions,
            ..self
        }
    }

    /// The page of a run that is being built.
    pub(crate) fn of_view(run: &ViewedRun<'_>) -> Result<Self, ReportError> {
        let files = RunFiles {
            path: run.path,
            metadata: run.metadata,
            metrics: read_metrics(&run.path.join("metrics.csv"))?,
            losses: losses(run.path)?,
        };
        Self::new(&files, run.overview.clone())
    }

    /// Whether `metrics.csv` has a column.
    pub(crate) fn has_metric(&self, name: &str) -> bool {
        self.metrics.columns.iter().any(|column| column.name == name)
    }

    /// A number of `metrics.csv`.
    pub(crate) fn metric(&self, region_type: &str, name: &str) -> Option<f64> {
        let place = self.metrics.columns.iter().position(|column| column.name == name)?;
        let row = self.metrics.rows.iter().find(|row| row.first().is_some_and(|field| field == region_type))?;
        row.get(place)?.as_f64()
    }

    /// Draws what the kernel was seen doing into the timeline. Says whether any of it was during the run.
    pub fn observe(&mut self, lines: Vec<Line>) -> bool {
        self.timeline.observe(lines)
    }

    /// Name of the run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The model in words.
    pub fn model(&self) -> &str {
        &self.model
    }

    fn new(files: &RunFiles<'_>, overview: Overview) -> Result<Self, ReportError> {
        let metadata = files.metadata;
        let (model, machine) = (model_title_of(metadata), machine(metadata));
        let regions = region_rows(files);
        let at_tokens_per_s = files.metrics.first().and_then(|line| line.number("suitability_tokens_per_s"));
        Ok(Self {
            run_id: metadata.run_id.clone(),
            headline: headline(metadata, &model, &machine),
            answer: answer(&regions, at_tokens_per_s),
            trust: trust(files, &overview),
            timeline: Timeline::load(files, &overview)?,
            memory_parts: memory_parts(metadata),
            kv_per_token: kv_per_token(metadata),
            thresholds: thresholds(metadata, at_tokens_per_s),
            metrics: metrics_table(&files.metrics),
            model,
            engine: metadata.engine.clone(),
            machine,
            recorded_utc: Some(metadata.started_at_utc.clone()).filter(|time| !time.is_empty()),
            time_unit: metadata.time_unit().map(str::to_owned),
            state: metadata.state.clone(),
            regions,
            overview,
        })
    }
}

/// Longest `overview.json`: twice what it can have.
const OVERVIEW_MAX_BYTES: u64 = 8 << 20;

const READING_OVERVIEW: &str = "reading the overview of a run";

/// The picture of a finished run. One of an older version has none: then its trace is read.
pub(crate) fn overview_of(run: &RunDir, results: &RunResults) -> Result<Overview, ReportError> {
    if !results.is_finished() {
        return Err(dwell_metrics::MetricsError::NotFinished { run: run.path().to_owned() }.into());
    }
    match read_json::<Overview>(READING_OVERVIEW, &run.overview_json(), OVERVIEW_MAX_BYTES) {
        Ok(overview) => match overview.problem() {
            None => Ok(overview),
            Some(problem) => Err(ReportError::UnfitFile {
                action: READING_OVERVIEW,
                found: problem.to_owned(),
                path: run.overview_json(),
            }),
        },
        // What others recorded need not be accesses.
        Err(FileError::NotFound { .. }) if results.metadata.is_imported() && !run.table(Table::Trace).exists() => {
            Ok(Overview::default())
        }
        Err(FileError::NotFound { .. }) => Ok(draw_run(run, options_of(&results.metadata))?.1),
        Err(error) => Err(error.into()),
    }
}

/// Writes `report.html` while a run is built.
pub struct RunReport;

impl RunReport {
    /// Its path in the run directory.
    pub(crate) const FILE_NAME: &str = "report.html";
}

impl RunView for RunReport {
    fn path(&self) -> &'static str {
        Self::FILE_NAME
    }

    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String> {
        let page = RunPage::of_view(run).map_err(|error| error.to_string())?;
        Ok(Some(report_html(&Page::of_run(page))))
    }
}

fn options_of(metadata: &RunMetadata) -> Options {
    metadata.build.as_ref().map_or_else(Options::default, |build| build.analysis)
}

pub(super) fn thresholds_of(metadata: &RunMetadata) -> SuitabilityThresholds {
    options_of(metadata).thresholds
}

fn machine(metadata: &RunMetadata) -> String {
    let Some(host) = &metadata.host else { return "an unknown machine".to_owned() };
    let processors = crate::text::counted(host.cpus.into(), "processor");
    let memory = host.memory_bytes.map_or_else(String::new, |bytes| format!(", {}", crate::numbers::bytes(bytes)));
    format!("{} ({processors}{memory})", host.cpu_model.as_deref().unwrap_or(&host.architecture))
}

/// What ran on what.
fn headline(metadata: &RunMetadata, model: &str, machine: &str) -> String {
    let speed =
        metadata.generation.as_ref().map_or_else(String::new, |generation| format!(": {}", speed_line(generation)));
    format!("{model}, run by {} on {machine}{speed}.", metadata.engine)
}

fn memory_parts(metadata: &RunMetadata) -> Vec<MemoryPart> {
    let steady = metadata.memory.as_ref().and_then(|memory| memory.steady.as_ref());
    let parts = steady.into_iter().flat_map(|steady| &steady.parts);
    let part = |part: &dwell_analysis::memory::SplitPart| MemoryPart {
        name: part.part.name(),
        title: part.part.label(),
        bytes: part.bytes,
        source: part.basis.name(),
    };
    parts.map(part).collect()
}

fn kv_per_token(metadata: &RunMetadata) -> Option<KvPerToken> {
    let kv = metadata.memory.as_ref()?.kv;
    let is_known = kv.measured_bytes_per_token.is_some() || kv.theory_bytes_per_token.is_some();
    is_known.then_some(KvPerToken {
        measured_bytes: kv.measured_bytes_per_token,
        theoretical_bytes: kv.theory_bytes_per_token,
    })
}

fn thresholds(metadata: &RunMetadata, at_tokens_per_s: Option<f64>) -> Thresholds {
    let thresholds = thresholds_of(metadata);
    Thresholds {
        high_retention_s: thresholds.high_retention_s,
        medium_retention_s: thresholds.medium_retention_s,
        high_write_once: thresholds.high_write_once,
        medium_write_once: thresholds.medium_write_once,
        at_tokens_per_s,
    }
}

/// All columns of `metrics.csv`, in its order.
fn metrics_table(lines: &[MetricsLine]) -> MetricsTable {
    let columns: Vec<MetricColumn> = type_columns()
        .into_iter()
        .map(|(_, column)| MetricColumn { name: column.name, unit: column.unit.symbol(), meaning: column.meaning })
        .collect();
    let row = |line: &MetricsLine| -> Vec<Json> {
        let field = |column: &MetricColumn| match column.name {
            "region_type" => Json::from(line.region_type.as_str()),
            name => line.values.get(name).map_or(Json::Null, json_of),
        };
        columns.iter().map(field).collect()
    };
    let rows = lines.iter().map(row).collect();
    MetricsTable { columns, rows }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Integer(value) => (*value).into(),
        Value::Number(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Flag(value) => (*value).into(),
    }
}
