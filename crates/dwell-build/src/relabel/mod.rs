//! Labels a finished trace anew, by rules.
//!
//! ```text
//! trace.parquet ─▶ columns: ours, whoever wrote it ─▶ rows: RuleLabeller ─▶ OUT.partial/… ─▶ rename ─▶ OUT
//! ```
//!
//! Batch after batch: memory is bounded by regions and page runs, not by rows.

mod known_regions;
mod metadata;
mod rows;
mod staging;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::types::UInt64Type;
use dwell_analysis::Options;
use dwell_events::schema::{Table, loss, region_map};
use dwell_events::{Hint, Severity};
use dwell_files::{
    WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most, write_bytes_atomically, write_json_atomically,
    write_json_line_atomically,
};
use dwell_label::rules::{DecidedBy, RuleLabels};
use dwell_label::{RuleLabeller, RuleSet, UnknownPolicy};
use dwell_metrics::draw_run;
use dwell_store::{RunDir, RunState, StoreError, TableWriter, number_at, open_table, text_at};
use serde::Serialize;

use crate::BuildError;
use crate::foreign_columns::trace_as_ours;
use crate::seal::Seal;
use metadata::Relabelled;
use rows::LabelledRows;
use staging::Staging;

/// The rules that labelled a run, as a file of it.
const RULES_FILE: &str = "labeller_rules.yaml";
/// The report on the labelling, as a file of it.
const REPORT_FILE: &str = "relabel.json";

/// What to label, and how.
#[derive(Clone, Debug)]
pub struct RelabelRequest {
    /// A run directory, or a `trace.parquet`.
    pub input: PathBuf,
    /// The directory to make; it must not exist.
    pub output: PathBuf,
    /// The rules.
    pub rules: RuleSet,
    /// What happens to accesses that nothing could label.
    pub policy: UnknownPolicy,
    /// How metrics are computed.
    pub analysis: Options,
}

/// What became of the rows.
#[derive(Clone, Debug, Serialize)]
pub struct RelabelReport {
    /// The directory that was made.
    pub run_dir: PathBuf,
    /// What was read.
    pub input: PathBuf,
    /// What happened to accesses that nothing could label.
    pub policy: UnknownPolicy,
    /// `complete`, or `partial` if the input lacks rows.
    pub state: RunState,
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub rows_out: u64,
    /// Rows that were dropped because nothing could label them.
    pub dropped: u64,
    /// Rows that came after rows of a later time: pages told them nothing.
    pub late: u64,
    /// Rows by region type as they were.
    pub before: BTreeMap<String, u64>,
    /// Rows by region type as they are.
    pub after: BTreeMap<&'static str, u64>,
    /// Rows by what decided.
    pub decided_by: BTreeMap<&'static str, u64>,
    /// Regions that they are in.
    pub regions: u64,
}

/// Reads a rules file.
pub fn read_rules(path: &Path) -> Result<RuleSet, BuildError> {
    let text = read_text_at_most(path, WRITTEN_BY_HAND_MAX_BYTES)
        .map_err(|error| StoreError::from_io("reading rules", path, error))?;
    RuleSet::from_yaml(&text, path)
        .map_err(|error| BuildError::Labelling { reason: error.to_string(), hints: error.hints() })
}

/// Labels the accesses of a run anew and writes them as a run of its own; `progress` hears the share that is done.
///
/// The output gets its name when it is whole. Lives of KV blocks, tokens and process samples are not part of it.
pub fn relabel_run(request: &RelabelRequest, progress: &mut dyn FnMut(f64)) -> Result<RelabelReport, BuildError> {
    let input = input_run(&request.input)?;
    let staging = Staging::create(&request.output, &input)?;
    let report = build(&input, staging.run(), request, progress)?;
    staging.publish()?;
    Ok(report)
}

/// The run whose trace is meant.
pub(crate) fn input_run(path: &Path) -> Result<RunDir, BuildError> {
    let is_trace = path.is_file() && path.file_name().is_some_and(|name| *name == *Table::Trace.file_name());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let run = RunDir::open(if is_trace { parent } else { path })?;
    if run.marker()?.is_some_and(|marker| !marker.state.is_final()) {
        return Err(BuildError::NotFinished { run: run.path().to_owned() });
    }
    Ok(run)
}

fn build(
    input: &RunDir,
    output: &RunDir,
    request: &RelabelRequest,
    progress: &mut dyn FnMut(f64),
) -> Result<RelabelReport, BuildError> {
    let labeller =
        RuleLabeller::new(request.rules.clone(), request.policy).with_known_regions(known_regions::read(input)?);
    let mut rows = LabelledRows::new(labeller);
    let trace_rows = write_trace(input, output, &mut rows, progress)?;
    let (before, after) = (rows.before, rows.after);
    let labels = rows.labeller.finish();
    let region_rows = write_table(output, Table::RegionMap, &[region_map::batch(&labels.regions)])?;
    let loss = write_loss(input, output, &labels)?;
    output.set_state(RunState::Building)?;
    let (mut metrics, overview) = draw_run(output, request.analysis)?;
    write_bytes_atomically(&output.path().join(RULES_FILE), request.rules.text().as_bytes())?;
    let counts = &labels.counts;
    let decided = DecidedBy::ALL.map(|by| (by.name(), counts.by_decision[by as usize]));
    let report = RelabelReport {
        run_dir: request.output.clone(),
        input: request.input.clone(),
        policy: request.policy,
        state: if loss.is_partial { RunState::Partial } else { RunState::Complete },
        rows_in: counts.rows_in,
        rows_out: counts.rows_in - counts.dropped,
        dropped: counts.dropped,
        late: counts.late,
        before,
        after,
        decided_by: decided.into_iter().filter(|&(_, rows)| rows > 0).collect(),
        regions: labels.regions.len() as u64,
    };
    write_json_atomically(&output.path().join(REPORT_FILE), &report)?;
    let rows = [(Table::Trace, trace_rows), (Table::RegionMap, region_rows), (Table::Loss, loss.rows)].into();
    let relabelled = Relabelled { rows, lost_records: loss.lost_records, metrics: &metrics };
    let metadata = metadata::metadata(input, request, &relabelled)?;
    metrics.heed(metadata.quality.as_ref(), metadata.validity.as_ref());
    if let Some(unit) = metadata.time_unit() {
        metrics.withhold_times(unit);
    }
    write_bytes_atomically(&output.metrics_csv(), metrics.metrics_csv().as_bytes())?;
    write_json_line_atomically(&output.overview_json(), &overview)?;
    Seal {
        metadata,
        metrics: Some(&metrics),
        state: report.state,
        // It gets its name, which may be anywhere, when it is whole.
        results: None,
    }
    .apply(output)?;
    Ok(report)
}

fn write_trace(
    input: &RunDir,
    output: &RunDir,
    rows: &mut LabelledRows,
    progress: &mut dyn FnMut(f64),
) -> Result<u64, BuildError> {
    let path = input.table(Table::Trace);
    let trace = open_table(input.path(), Table::Trace)?;
    let total_rows = trace.total_rows();
    let mut writer = TableWriter::create(output.path(), Table::Trace)?;
    let mut rows_read = 0;
    for batch in trace {
        let batch = trace_as_ours(&batch?, input.run_id(), rows_read, &path)?;
        rows_read += batch.num_rows() as u64;
        writer.write(&rows.label(&batch, &path)?)?;
        progress(rows_read as f64 / total_rows.max(1) as f64);
    }
    Ok(writer.finish()?)
}

fn write_table(output: &RunDir, table: Table, batches: &[RecordBatch]) -> Result<u64, BuildError> {
    let mut writer = TableWriter::create(output.path(), table)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.finish()?)
}

/// What a trace lacks.
struct LossTable {
    rows: u64,
    /// Whether any row says that accesses are missing.
    is_partial: bool,
    /// How many, as far as that is known.
    lost_records: u64,
}

/// What the input lacks, the output lacks too.
fn write_loss(input: &RunDir, output: &RunDir, labels: &RuleLabels) -> Result<LossTable, BuildError> {
    let mut batches = Vec::new();
    if input.table(Table::Loss).is_file() {
        for batch in open_table(input.path(), Table::Loss)? {
            batches.push(batch?);
        }
    }
    batches.extend(labels.loss.as_ref().map(|row| loss::batch(std::slice::from_ref(row))));
    let lost: Vec<u64> = batches.iter().flat_map(lost_records).collect();
    let (is_partial, lost_records) = (!lost.is_empty(), lost.into_iter().fold(0, u64::saturating_add));
    Ok(LossTable { rows: write_table(output, Table::Loss, &batches)?, is_partial, lost_records })
}

/// The count of every row of data loss.
fn lost_records(batch: &RecordBatch) -> impl Iterator<Item = u64> {
    let is_data_loss = |row: &usize| text_at(batch, "severity", *row) == Some(Severity::DataLoss.name());
    let rows = (0..batch.num_rows()).filter(is_data_loss);
    rows.map(|row| number_at::<UInt64Type>(batch, "count", row).unwrap_or(0))
}
