//! Runs from what other programs recorded.
//!
//! A format is one file here and one line in [`ALL`]: `dwell import` has a subcommand for each entry. An importer writes
//! raw streams and tables into a run directory and says what it knows of the run; everything that makes the directory a
//! run is done here, by the same seal as for a run that dwell recorded.

pub mod accesses;
mod kv_events;
mod lackey;
mod memray;
mod memray_tables;
mod mrm_trace;
pub(crate) mod perf;
pub(crate) mod perf_data;
mod perf_script;
mod reorder;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dwell_analysis::MetricsReport;
use dwell_events::schema::Table;
use dwell_events::schema::loss::{self, LossRow};
use dwell_events::{Hint, Severity};
use dwell_files::{write_json_atomically, write_json_line_atomically};
use dwell_metadata::{ImportOrigin, RunMetadata, RunView, TableOrigin, ViewedRun};
use dwell_metrics::draw_run;
use dwell_store::{RunDir, RunState, StoreError, TableWriter, unix_secs_now, utc_text};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::judgement::{lost_records, trace_quality};
use crate::run_files::{write_metrics, write_views};
use crate::seal::Seal;
use crate::{BuildError, GivenRows};

/// What is being imported, in `raw/`, before anything else of the run is there.
pub(crate) const IMPORT_FILE: &str = "import.json";

/// Every importer.
pub static ALL: &[&dyn Importer] = &[
    &kv_events::KvEvents,
    &lackey::Lackey,
    &memray::Memray,
    &mrm_trace::MrmTrace,
    &perf_data::PerfDataImport,
    &perf_script::PerfScriptImport,
];

/// Reads one format of other programs.
pub trait Importer: Sync {
    /// Name of the format: `dwell import NAME`.
    fn name(&self) -> &'static str;

    /// What the format is and what its runs hold, in one line.
    fn about(&self) -> &'static str;

    /// Which files it takes.
    fn files_help(&self) -> &'static str;

    /// Options beside those that every format has.
    fn options(&self) -> &'static [ImportOption];

    /// Writes the raw streams and the tables of a run, but for `loss`.
    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError>;
}

/// An option that one format has.
#[derive(Clone, Copy, Debug)]
pub struct ImportOption {
    /// Its long name, without the dashes.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What it does.
    pub help: &'static str,
    /// Another option of the format that cannot be given at the same time.
    pub conflicts_with: Option<&'static str>,
    /// Whether its value must not be written anywhere.
    pub is_secret: bool,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: it is there or not.
    Nothing,
    /// A whole number of at least 1, shown under this name.
    Number(&'static str),
    /// A text, shown under this name.
    Text(&'static str),
    /// One of these names.
    OneOf(&'static str, &'static [&'static str]),
}

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The files; several are one recording, in this order.
    pub files: Vec<PathBuf>,
    /// Folder of results.
    pub results: PathBuf,
    /// Name of the model.
    pub model_id: String,
    /// Name of the run; none for a fresh one.
    pub run_id: Option<String>,
    /// Values of the format's own options that were given, by name; empty for one that takes nothing.
    pub options: BTreeMap<&'static str, String>,
    /// Command line without secrets, for the metadata.
    pub command_line: Vec<String>,
}

/// Content of [`IMPORT_FILE`]: how to repeat an import that was killed.
#[derive(Serialize)]
struct ImportRecord<'a> {
    format: &'a str,
    files: &'a [PathBuf],
    command_line: &'a [String],
}

/// What an importer found.
pub struct Imported {
    /// What is known of the run. What every import says the same way is filled in: of `import`, all but what only the
    /// metadata say of the recording.
    pub metadata: RunMetadata,
    /// What is missing.
    pub loss: Vec<LossRow>,
    /// Rows with what only some collectors give; none if they were not counted while they were written.
    pub given: Option<GivenRows>,
    /// What was found, for programs: keys of the report.
    pub found: Map<String, Value>,
    /// The same for people.
    pub summary: ImportSummary,
}

/// What an import found, for people.
#[derive(Clone, Debug, Default)]
pub struct ImportSummary {
    /// Names and what stands behind them.
    pub lines: Vec<(&'static str, SummaryText)>,
    /// Heads of the columns of a table of counts; empty if there is none.
    pub header: Vec<&'static str>,
    /// Its lines: a name and counts.
    pub rows: Vec<(String, Vec<u64>)>,
}

/// A line of a summary, apart from how numbers are written.
#[derive(Clone, Debug)]
pub enum SummaryText {
    /// A sentence in which each `{}` stands for the next figure.
    Sentence(&'static str, Vec<SummaryFigure>),
    /// Counts with their nouns; those that are 0 are left out.
    Totals(Vec<(u64, &'static str)>),
}

/// A figure of a sentence.
#[derive(Clone, Copy, Debug)]
pub enum SummaryFigure {
    /// A count.
    Count(u64),
    /// A time span in seconds, if known.
    Seconds(Option<f64>),
    /// An amount of memory, if known.
    Bytes(Option<u64>),
}

/// What came of an import.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// The run directory.
    pub run_dir: PathBuf,
    /// The run.
    pub run_id: String,
    /// The model.
    pub model_id: String,
    /// `complete`, or `partial` if something that should be there is missing.
    pub state: RunState,
    /// What was found.
    #[serde(flatten)]
    pub found: Map<String, Value>,
    /// The same for people.
    #[serde(skip)]
    pub summary: ImportSummary,
    /// What `metadata.json` says.
    #[serde(skip)]
    pub metadata: RunMetadata,
}

/// Why files could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file could not be read, or the run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The files are not what the format needs.
    #[error("{message}")]
    Refused {
        /// What was being done, found and needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },
}

impl Hint for ImportError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::Refused { hints, .. } => hints.clone(),
        }
    }
}

impl From<BuildError> for ImportError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Store(error) => Self::Store(error),
            other => Self::Refused { message: other.to_string(), hints: other.hints() },
        }
    }
}

/// Makes a run of recorded files. If that fails, nothing is left behind.
///
/// If the importer wrote a `trace`, metrics are computed, and these views are drawn of it.
pub fn import(
    importer: &dyn Importer,
    request: &ImportRequest,
    views: &[&dyn RunView],
) -> Result<ImportReport, ImportError> {
    import_into(&begin_import(request)?, importer, request, views)
}

/// Makes the directory that a run is imported into.
pub fn begin_import(request: &ImportRequest) -> Result<RunDir, ImportError> {
    Ok(match &request.run_id {
        Some(run_id) => RunDir::create(&request.results, &request.model_id, run_id)?,
        None => RunDir::create_fresh(&request.results, &request.model_id)?,
    })
}

/// The same as [`import`] into a directory that is there already and that nothing is in.
pub fn import_into(
    run: &RunDir,
    importer: &dyn Importer,
    request: &ImportRequest,
    views: &[&dyn RunView],
) -> Result<ImportReport, ImportError> {
    fill(run, importer, request, views).inspect_err(|_| run.discard())
}

fn fill(
    run: &RunDir,
    importer: &dyn Importer,
    request: &ImportRequest,
    views: &[&dyn RunView],
) -> Result<ImportReport, ImportError> {
    let beginning =
        ImportRecord { format: importer.name(), files: &request.files, command_line: &request.command_line };
    write_json_atomically(&run.raw().join(IMPORT_FILE), &beginning).map_err(StoreError::from)?;
    run.set_state(RunState::Building)?;
    let imported = importer.import(request, run)?;
    let mut loss_table = TableWriter::create(run.path(), Table::Loss)?;
    loss_table.write(&loss::batch(&imported.loss))?;
    let rows = loss_table.finish()?;
    let is_partial = imported.loss.iter().any(|row| row.kind.severity() == Severity::DataLoss);
    let state = if is_partial { RunState::Partial } else { RunState::Complete };
    let mut metadata = RunMetadata {
        imported_at_utc: Some(utc_text(unix_secs_now())),
        dwell_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: request.command_line.clone(),
        engine: "imported".to_owned(),
        ..imported.metadata
    };
    let source = metadata.collectors.used.first().cloned().unwrap_or_default();
    metadata.tables.insert(Table::Loss.name().to_owned(), TableOrigin { rows, basis: "reported".to_owned(), source });
    if metadata.kv_events.is_none() {
        let (format, files) = (importer.name().to_owned(), request.files.clone());
        let mut found = imported.found.clone();
        found.extend(metadata.import.take().map(|import| import.found).unwrap_or_default());
        metadata.import = Some(ImportOrigin { format, files, found });
    }
    metadata.state = state.name().to_owned();
    let metrics = match run.table(Table::Trace).is_file() {
        true => {
            let given = imported.given.map_or_else(|| GivenRows::of(run), Ok)?;
            Some(draw_accesses(run, &mut metadata, (given, lost_records(&imported.loss)), views)?)
        }
        false => None,
    };
    let metadata = Seal { metadata, metrics: metrics.as_ref(), state, results: Some(&request.results) }.apply(run)?;
    Ok(ImportReport {
        run_dir: run.path().to_owned(),
        run_id: run.run_id().to_owned(),
        model_id: run.model_id().to_owned(),
        state,
        found: imported.found,
        summary: imported.summary,
        metadata,
    })
}

/// Metrics, picture and views of a trace, as a run that was recorded has them.
///
/// Without times, nothing is said in seconds: figures would draw them, and the metrics withhold theirs. The page can be
/// made with `dwell report`; its axes then count what the timestamps count.
fn draw_accesses(
    run: &RunDir,
    metadata: &mut RunMetadata,
    (given, lost_records): (GivenRows, u64),
    views: &[&dyn RunView],
) -> Result<MetricsReport, ImportError> {
    let build = metadata.build.clone().unwrap_or_default();
    let (mut metrics, overview) = draw_run(run, build.analysis_options()).map_err(BuildError::from)?;
    let collector = metadata.collectors.used.first().cloned().unwrap_or_default();
    metadata.quality = Some(trace_quality(collector, &metrics, given, lost_records));
    metrics.heed(metadata.quality.as_ref(), metadata.validity.as_ref());
    if let Some(unit) = metadata.time_unit() {
        metrics.withhold_times(unit);
    }
    write_metrics(run, &metrics, &build)?;
    write_json_line_atomically(&run.overview_json(), &overview).map_err(StoreError::from)?;
    let viewed = ViewedRun { path: run.path(), metadata, metrics: &metrics, overview: &overview, bins: build.bins };
    write_views(run, if metrics.has_times() { views } else { &[] }, &viewed)?;
    Ok(metrics)
}
