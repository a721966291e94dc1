//! Runs of mrm-trace: their labels as they are, their tables in the types of ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::Field;
use dwell_events::schema::region_map::{self, RegionRow};
use dwell_events::schema::trace::TraceColumns;
use dwell_events::schema::{Table, kv_block_lifecycle};
use dwell_events::{Basis, PAGE_SHIFT, RegionType};
use dwell_files::{WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most};
use dwell_metadata::{CollectorUse, RunMetadata, TableOrigin, Timestamps};
use dwell_store::{RunDir, StoreError, TableWriter, number_at, open_table, text_at};
use serde_json::{Map, Value, json};

use super::{ImportError, ImportOption, ImportRequest, ImportSummary, Imported, Importer, SummaryFigure, SummaryText};
use crate::foreign_columns::{as_ours, repeated, trace_as_ours, unfit};
use crate::relabel::input_run;

const SOURCE: &str = "mrm-trace";
/// What is said where mrm-trace says nothing.
const UNKNOWN: &str = "unknown";

/// A run directory of mrm-trace.
pub(super) struct MrmTrace;

impl Importer for MrmTrace {
    fn name(&self) -> &'static str {
        SOURCE
    }

    fn about(&self) -> &'static str {
        "A run of mrm-trace: its labelled accesses, regions and KV blocks"
    }

    fn files_help(&self) -> &'static str {
        "One run directory of mrm-trace, of any version, or its trace.parquet"
    }

    fn options(&self) -> &'static [ImportOption] {
        &[]
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let input = peer_run(&request.files)?;
        let trace = copy_trace(&input, run)?;
        let region_rows = write_regions(&input, run, &trace)?;
        let kv_rows = copy_kv_blocks(&input, run)?;
        let peer_metadata = peer_metadata(&input)?;
        let origin = |basis: &str, rows: u64| TableOrigin { rows, basis: basis.to_owned(), source: SOURCE.to_owned() };
        let sampled = Basis::Sampled.name();
        let mut tables: BTreeMap<String, TableOrigin> =
            [(Table::Trace.name().to_owned(), origin(trace.basis().name(), trace.rows))].into();
        tables.insert(Table::RegionMap.name().to_owned(), origin(Basis::Inferred.name(), region_rows));
        tables.extend(kv_rows.map(|rows| (Table::KvBlockLifecycle.name().to_owned(), origin(sampled, rows))));
        Ok(Imported {
            metadata: RunMetadata {
                timestamps: Some(Timestamps::nanoseconds_of(UNKNOWN)),
                collectors: CollectorUse { used: vec![SOURCE.to_owned()], ..CollectorUse::default() },
                tables,
                ..RunMetadata::default()
            },
            loss: Vec::new(),
            given: None,
            found: found(&trace, region_rows, kv_rows, peer_metadata),
            summary: summary(&trace, region_rows, kv_rows),
        })
    }
}

/// The one run that is meant, which is none of dwell's.
fn peer_run(files: &[PathBuf]) -> Result<RunDir, ImportError> {
    let refused = |message: String, hint: String| ImportError::Refused { message, hints: vec![hint] };
    let [path] = files else {
        let hint = "import each run by a command of its own".to_owned();
        return Err(refused(format!("importing from mrm-trace found {} paths, and needs one run", files.len()), hint));
    };
    let run = input_run(path)?;
    if run.marker()?.is_some() {
        let hint = format!("to label it anew: dwell relabel '{}' -o DIR", run.path().display());
        return Err(refused(format!("importing from mrm-trace found a run of dwell: {:?}", run.path()), hint));
    }
    if !run.table(Table::Trace).is_file() {
        let hint = "mrm-trace writes it with RunExporter.export".to_owned();
        return Err(refused(format!("importing from mrm-trace found no trace.parquet: {:?}", run.path()), hint));
    }
    Ok(run)
}

/// What the trace of the peer holds.
#[derive(Default)]
struct CopiedTrace {
    rows: u64,
    /// Rows that are earlier than one before.
    out_of_order: u64,
    newest_ns: u64,
    /// Whether every row states that it stands for itself.
    is_exact: bool,
    rows_by_type: BTreeMap<String, u64>,
    regions: BTreeMap<u32, RegionRow>,
}

impl CopiedTrace {
    fn basis(&self) -> Basis {
        if self.is_exact { Basis::Exact } else { Basis::Sampled }
    }

    fn follow(&mut self, batch: &RecordBatch, path: &Path) -> Result<(), StoreError> {
        let columns = TraceColumns::of(batch).map_err(|error| unfit(error.to_string(), path))?;
        for row in 0..columns.len() {
            let place = self.rows + row as u64;
            let access = columns.row(row).map_err(|error| unfit(format!("row {place} has {error}"), path))?;
            self.out_of_order += u64::from(access.timestamp_ns < self.newest_ns);
            self.newest_ns = self.newest_ns.max(access.timestamp_ns);
            self.is_exact &= access.period == 1;
            match self.rows_by_type.get_mut(columns.region_type_name(row)) {
                Some(rows) => *rows += 1,
                None => _ = self.rows_by_type.insert(columns.region_type_name(row).to_owned(), 1),
            }
            if access.region_id == 0 {
                continue;
            }
            let region = self.regions.entry(access.region_id).or_insert_with(|| RegionRow {
                address: access.address,
                size_bytes: 0,
                ..empty_region(access.region_id, access.region_type)
            });
            let end = region.address.saturating_add(region.size_bytes).max(access.end_address());
            region.address = region.address.min(access.address);
            region.size_bytes = end - region.address;
            region.add_access(access.op_type, access.size_bytes, access.timestamp_ns);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }
}

fn empty_region(region_id: u32, region_type: RegionType) -> RegionRow {
    RegionRow {
        region_id,
        region_type,
        address: 0,
        size_bytes: 0,
        first_seen_ns: u64::MAX,
        last_seen_ns: 0,
        access_count: 0,
        tensor: String::new(),
        layer: None,
        bytes_read: 0,
        bytes_written: 0,
        origin: UNKNOWN,
        file_offset: None,
        freed_ns: None,
    }
}

/// Rows stay in the order in which the peer has them: metrics sort what is not in the order of time.
fn copy_trace(input: &RunDir, run: &RunDir) -> Result<CopiedTrace, ImportError> {
    let path = input.table(Table::Trace);
    let mut writer = TableWriter::create(run.path(), Table::Trace)?;
    let mut copied = CopiedTrace { is_exact: true, ..CopiedTrace::default() };
    for batch in open_table(input.path(), Table::Trace)? {
        // The run has a name of its own; that of the peer is in its metadata.
        let batch = without(&batch?, "run_id");
        let batch = trace_as_ours(&batch, run.run_id(), copied.rows, &path)?;
        copied.follow(&batch, &path)?;
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(copied)
}

fn without(batch: &RecordBatch, name: &str) -> RecordBatch {
    let mut batch = batch.clone();
    if let Ok(index) = batch.schema_ref().index_of(name) {
        batch.remove_column(index);
    }
    batch
}

/// Regions as the accesses show them, with the pages that the peer's map gives them.
fn write_regions(input: &RunDir, run: &RunDir, trace: &CopiedTrace) -> Result<u64, ImportError> {
    let mut regions = trace.regions.clone();
    if input.table(Table::RegionMap).is_file() {
        for batch in open_table(input.path(), Table::RegionMap)? {
            let batch = region_pages(&batch?, &input.table(Table::RegionMap))?;
            (0..batch.num_rows()).for_each(|row| take_over(&batch, row, &mut regions));
        }
    }
    let rows: Vec<RegionRow> = regions.into_values().collect();
    let mut writer = TableWriter::create(run.path(), Table::RegionMap)?;
    writer.write(&region_map::batch(&rows))?;
    Ok(writer.finish()?)
}

/// The columns of a region map that mrm-trace has.
fn region_pages(batch: &RecordBatch, path: &Path) -> Result<RecordBatch, StoreError> {
    let schema = region_map::schema().project(&[0, 1, 2, 3]).map_err(|error| unfit(error.to_string(), path))?;
    as_ours(batch, Arc::new(schema), path, |field| Err(format!("column {} is missing", field.name())))
}

fn take_over(batch: &RecordBatch, row: usize, regions: &mut BTreeMap<u32, RegionRow>) {
    let number = |column| number_at::<Int64Type>(batch, column, row).and_then(|value| u64::try_from(value).ok());
    let Some(id) = number("region_id").and_then(|id| u32::try_from(id).ok()) else { return };
    // Of a region without accesses nothing would be said.
    let Some(region) = regions.get_mut(&id) else { return };
    let region_type = text_at(batch, "region_type", row).and_then(RegionType::from_name);
    region.region_type = region_type.unwrap_or(region.region_type);
    if let (Some(first), Some(last)) = (number("page_min"), number("page_max")) {
        let is_around = first <= region.address >> PAGE_SHIFT && last >= first;
        let end = last.saturating_add(1).checked_mul(1 << PAGE_SHIFT);
        if let Some(end) = end.filter(|&end| is_around && end >= region.address + region.size_bytes) {
            region.address = first << PAGE_SHIFT;
            region.size_bytes = end - region.address;
        }
    }
}

/// Lives of KV blocks as the peer found them; none if it wrote none.
fn copy_kv_blocks(input: &RunDir, run: &RunDir) -> Result<Option<u64>, ImportError> {
    let path = input.table(Table::KvBlockLifecycle);
    if !path.is_file() {
        return Ok(None);
    }
    let mut writer = TableWriter::create(run.path(), Table::KvBlockLifecycle)?;
    for batch in open_table(input.path(), Table::KvBlockLifecycle)? {
        let batch = batch?;
        let stand_in = |field: &Field| block_stand_in(field, batch.num_rows());
        writer.write(&as_ours(&batch, kv_block_lifecycle::schema(), &path, stand_in)?)?;
    }
    Ok(Some(writer.finish()?))
}

fn block_stand_in(field: &Field, rows: usize) -> Result<ArrayRef, String> {
    match field.name().as_str() {
        "positions" => Ok(Arc::new(UInt32Array::from_value(0, rows))),
        "end_cause" => Ok(repeated(UNKNOWN, rows)),
        _ if field.is_nullable() => Ok(new_null_array(field.data_type(), rows)),
        name => Err(format!("column {name} is missing")),
    }
}

/// What the peer wrote about the run: any JSON, or text if it is none.
fn peer_metadata(input: &RunDir) -> Result<Option<Value>, ImportError> {
    let path = input.metadata_json();
    if !path.is_file() {
        return Ok(None);
    }
    let text = read_text_at_most(&path, WRITTEN_BY_HAND_MAX_BYTES)
        .map_err(|error| StoreError::from_io("reading the metadata of mrm-trace", &path, error))?;
    Ok(Some(serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

fn found(trace: &CopiedTrace, regions: u64, kv_rows: Option<u64>, metadata: Option<Value>) -> Map<String, Value> {
    let pairs = [
        ("rows", json!(trace.rows)),
        ("out_of_order", json!(trace.out_of_order)),
        ("region_types", json!(trace.rows_by_type)),
        ("regions", json!(regions)),
        ("kv_blocks", json!(kv_rows)),
        ("peer_metadata", json!(metadata)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn summary(trace: &CopiedTrace, regions: u64, kv_rows: Option<u64>) -> ImportSummary {
    use SummaryFigure::Count;
    let read = vec![Count(trace.rows), Count(regions), Count(kv_rows.unwrap_or(0))];
    ImportSummary {
        lines: vec![
            ("read", SummaryText::Sentence("{} accesses in {} regions, {} lives of KV blocks", read)),
            ("order", SummaryText::Totals(vec![(trace.out_of_order, "accesses earlier than the one before")])),
        ],
        header: vec!["region", "accesses"],
        rows: trace.rows_by_type.iter().map(|(name, rows)| (name.clone(), vec![*rows])).collect(),
    }
}
