//! From `raw/` to tables, metrics, metadata and manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_analysis::energy::EnergyReport;
use dwell_analysis::memory::{MemoryReport, TokenTimes};
use dwell_analysis::{MetricsReport, Options};
use dwell_collectors::{BuiltTable, Collected, Known, MergedRecords, ProcessSamples, build_named_tables, build_tables};
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::{Table, loss, region_map, tokens};
use dwell_events::{Hint, Severity};
use dwell_files::{FileError, OWN_TEXT_MAX_BYTES, read_json, write_json_line_atomically};
use dwell_gguf::GgufFile;
use dwell_kv_events::KvBlocksReport;
use dwell_label::{FileTensor, Labelled, Labeller, Output, PROCESSES_MAX, RuleSet, RulesError, UnknownPolicy};
use dwell_metadata::{Agreement, BuildOptions, RecordingEnd, RunMetadata, RunRecord, RunView, ViewedRun};
use dwell_metrics::draw_run;
use dwell_store::{Compression, RunDir, RunState, StoreError, TableWriter};

use crate::energy_report::energy_report;
use crate::judgement::GivenRows;
use crate::memory_report::{TokenMemory, memory_report};
use crate::metadata::run_metadata;
use crate::run_files::{write_metrics, write_views};
use crate::run_loss::{missing_records, run_losses, unlabelled_programs};
use crate::sampled_trace::write_sampled_trace;
use crate::seal::Seal;
use crate::server_figures::ServerFiguresFile;
use crate::trace_order::TraceOrder;
use crate::{BuildError, BuildListener};

/// Rows that are gathered before they are written.
const ROWS_PER_BATCH: usize = 32 * 1024;

/// Rows of tables by name.
type TableRows = BTreeMap<&'static str, u64>;

/// A finished run.
pub struct BuiltRun {
    /// Its directory.
    pub path: PathBuf,
    /// What is written about it.
    pub metadata: RunMetadata,
    /// Its metrics.
    pub metrics: MetricsReport,
    /// What was not seen.
    pub losses: Vec<LossRow>,
    /// Whether anything that should be there is missing.
    pub is_partial: bool,
}

/// What the caller adds to what was asked for when recording began.
pub struct BuildSetup<'a> {
    /// May change how metrics are computed.
    pub adjust: &'a dyn Fn(Options) -> Options,
    /// Drawn before the run is sealed, so that the manifest has them.
    pub views: &'a [&'a dyn RunView],
}

impl<'a> BuildSetup<'a> {
    /// Metrics as they were asked for, and these views.
    pub fn drawing(views: &'a [&'a dyn RunView]) -> Self {
        Self { adjust: &|options| options, views }
    }
}

/// Makes everything that a run directory holds from its raw streams, as it was asked for when recording began, and seals
/// it.
pub fn build_run(
    run: &RunDir,
    setup: &BuildSetup<'_>,
    listener: &mut dyn BuildListener,
) -> Result<BuiltRun, BuildError> {
    build_and_seal(run, setup, listener)
        .map_err(|error| BuildError::BuildingStopped { source: Box::new(error), run: run.path().to_owned() })
}

fn build_and_seal(
    run: &RunDir,
    setup: &BuildSetup<'_>,
    listener: &mut dyn BuildListener,
) -> Result<BuiltRun, BuildError> {
    let mut record: RunRecord = read_raw(run, RunRecord::FILE_NAME)?;
    let build = &mut record.request.build;
    build.analysis = (setup.adjust)(build.analysis);
    let build = build.clone();
    let facts: Option<RecordingEnd> = read_raw(run, RecordingEnd::FILE_NAME).ok();
    let mut collected = build_tables(run, &record, facts.as_ref())?;
    let (mut labelled, mut table_rows, token_times) = write_accesses(run, &record, &collected, listener)?;
    let known = Known { regions: &labelled.regions, processes: &labelled.processes };
    build_named_tables(run, &record, &known, &mut collected)?;
    if let Some(sampled) = write_sampled_trace(run, &record)? {
        collected.tables.extend(sampled.tables);
        collected.losses.extend(sampled.loss);
    }
    labelled.loss.extend(run_losses(facts.as_ref(), &labelled));
    labelled.loss.append(&mut collected.losses);
    table_rows.extend(write_small_tables(run, &labelled, &collected, build.compression)?);
    let (mut metrics, overview) = draw_run(run, build.analysis_options())?;
    let memory = memory_report(&record, &labelled, &collected.samples.engine, &token_times);
    let energy = energy_report(&labelled, &collected.energy, &token_times);
    let facts = facts.unwrap_or_default();
    let given = given_rows(run, &collected)?;
    let built = Built {
        record: &record,
        facts,
        labelled: &labelled,
        samples: &collected.samples,
        memory,
        collected_tables: &collected.tables,
        kv_blocks: collected.kv_blocks,
        agreements: collected.agreements,
        energy,
        given,
    };
    let state = if is_partial(&labelled) { RunState::Partial } else { RunState::Complete };
    let metadata = RunMetadata { state: state.name().to_owned(), ..run_metadata(run, &built, &metrics, &table_rows) };
    metrics.heed(metadata.quality.as_ref(), metadata.validity.as_ref());
    write_metrics(run, &metrics, &build)?;
    write_json_line_atomically(&run.overview_json(), &overview)?;
    if build.draws_figures {
        let viewed = ViewedRun {
            path: run.path(),
            metadata: &metadata,
            metrics: &metrics,
            overview: &overview,
            bins: build.bins,
        };
        write_views(run, setup.views, &viewed)?;
    }
    let metadata = Seal { metadata, metrics: Some(&metrics), state, results: results_of(run) }.apply(run)?;
    Ok(BuiltRun {
        path: run.path().to_owned(),
        metadata,
        metrics,
        losses: labelled.loss,
        is_partial: state == RunState::Partial,
    })
}

/// Whether anything that should be there is missing.
pub(crate) fn is_partial(labelled: &Labelled) -> bool {
    labelled.loss.iter().any(|row| row.kind.severity() == Severity::DataLoss)
}

/// What a run's files are made from.
pub(crate) struct Built<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) facts: RecordingEnd,
    pub(crate) labelled: &'a Labelled,
    pub(crate) samples: &'a ProcessSamples,
    pub(crate) memory: MemoryReport,
    /// Tables that collectors wrote.
    pub(crate) collected_tables: &'a [BuiltTable],
    /// What a server said of its KV blocks.
    pub(crate) kv_blocks: Option<KvBlocksReport>,
    /// How far collectors agree that see the same.
    pub(crate) agreements: Vec<Agreement>,
    /// What meters of energy said; none if there was none.
    pub(crate) energy: Option<EnergyReport>,
    /// What the rows of a sampled trace have.
    pub(crate) given: GivenRows,
}

/// What the rows of a trace have that a collector wrote.
fn given_rows(run: &RunDir, collected: &Collected) -> Result<GivenRows, StoreError> {
    if collected.has(Table::Trace) { GivenRows::of(run) } else { Ok(GivenRows::default()) }
}

/// The folder of results that a run lies in; none for a run that was moved out of one.
pub(crate) fn results_of(run: &RunDir) -> Option<&Path> {
    let model_dir = run.path().parent()?;
    let is_named = |path: &Path, name: &str| path.file_name().is_some_and(|found| found == name);
    (is_named(run.path(), run.run_id()) && is_named(model_dir, run.model_id())).then(|| model_dir.parent()).flatten()
}

fn read_raw<T: serde::de::DeserializeOwned>(run: &RunDir, name: &str) -> Result<T, FileError> {
    read_json("reading the record of a run", &run.raw().join(name), OWN_TEXT_MAX_BYTES)
}

/// Turns the records into rows and writes them as they come.
fn write_accesses(
    run: &RunDir,
    record: &RunRecord,
    collected: &Collected,
    listener: &mut dyn BuildListener,
) -> Result<(Labelled, TableRows, TokenTimes), BuildError> {
    let build = &record.request.build;
    let mut tables = AccessTables::create(run, record, collected)?;
    let mut labeller = Labeller::new(&file_tensors(record));
    if let Some(rules) = rules(build)? {
        labeller = labeller.with_rules(rules, build.unknown_policy);
    }
    let mut records = MergedRecords::open(run, PROCESSES_MAX)?;
    while let Some((process, frame)) = records.next_frame() {
        labeller.frame_of(process, &frame, &mut tables.output);
        tables.write_full_batches(ROWS_PER_BATCH, || records.earliest_ns())?;
        if let Some(share) = records.news_of_share_read() {
            listener.building(share);
        }
    }
    if let Some(access) = labeller.unlabelled() {
        return Err(BuildError::Labelling { reason: access.to_string(), hints: access.hints() });
    }
    let mut labelled = labeller.finish(&mut tables.output);
    explain_untraced(&mut labelled);
    labelled.loss.extend(missing_records(records.missing()).into_iter().chain(unlabelled_programs(&records)));
    let (rows, token_times) = tables.finish()?;
    Ok((labelled, rows, token_times))
}

/// Says why there are no accesses of a program into which the recorder was loaded.
fn explain_untraced(labelled: &mut Labelled) {
    let is_explained = labelled.graphs > 0 || labelled.processes.is_empty();
    let Some(server) = labelled.outcome.server.as_mut().filter(|_| !is_explained) else { return };
    let refused = labelled.outcome.refused.as_ref().map(|reason| format!("the recorder left it alone: {reason}"));
    server.untraced_because = refused.or(Some("ggml was loaded and computed nothing".to_owned()));
}

/// The rules to ask about accesses; none where they could change nothing.
pub(crate) fn rules(build: &BuildOptions) -> Result<Option<RuleSet>, BuildError> {
    let unfit = |error: RulesError| BuildError::Labelling { reason: error.to_string(), hints: error.hints() };
    match &build.rules {
        Some(text) => RuleSet::from_yaml(text, Path::new(RunRecord::FILE_NAME)).map(Some).map_err(unfit),
        None if build.unknown_policy == UnknownPolicy::Keep => Ok(None),
        None => Ok(Some(RuleSet::default_rules())),
    }
}

/// The tables that grow with the run, written while records are labelled.
struct AccessTables<'a> {
    output: Output,
    order: TraceOrder,
    trace: TableWriter,
    /// None if a server told of its blocks, which then take the place of traced ones.
    blocks: Option<TableWriter>,
    tokens: TableWriter,
    token_memory: TokenMemory<'a>,
    server_figures: Option<ServerFiguresFile>,
}

impl<'a> AccessTables<'a> {
    fn create(run: &RunDir, record: &RunRecord, collected: &'a Collected) -> Result<Self, StoreError> {
        let table = |table| TableWriter::create_with(run.path(), table, record.request.build.compression);
        let has_server = !record.request.job.engine.is_embedded();
        Ok(Self {
            output: Output::new(run.run_id()),
            order: TraceOrder::default(),
            token_memory: TokenMemory::create(run, &collected.samples.engine, record.clock)?,
            server_figures: has_server.then(|| ServerFiguresFile::create(run, record.clock)).transpose()?,
            trace: table(Table::Trace)?,
            blocks: (!collected.has(Table::KvBlockLifecycle)).then(|| table(Table::KvBlockLifecycle)).transpose()?,
            tokens: table(Table::Tokens)?,
        })
    }

    /// Writes what has gathered. No row will come that is earlier than what `earliest_ns` says; none at all if it says
    /// none.
    fn write_full_batches(
        &mut self,
        rows_min: usize,
        earliest_ns: impl FnOnce() -> Option<u64>,
    ) -> Result<(), StoreError> {
        if self.output.trace.len() >= rows_min {
            self.write_trace(earliest_ns())?;
        }
        if self.output.blocks.len() >= rows_min {
            let batch = self.output.blocks.finish_batch();
            self.blocks.as_mut().map_or(Ok(()), |blocks| blocks.write(&batch))?;
        }
        if self.output.tokens.len() >= rows_min {
            let mut rows = std::mem::take(&mut self.output.tokens);
            self.token_memory.note(&mut rows)?;
            self.tokens.write(&tokens::batch(&rows))?;
        }
        let figures = std::mem::take(&mut self.output.server_figures);
        self.server_figures.as_mut().map_or(Ok(()), |file| file.write(&figures))
    }

    fn write_trace(&mut self, earliest_ns: Option<u64>) -> Result<(), StoreError> {
        let ordered = self.order.push(self.output.trace.finish_batch(), earliest_ns);
        ordered.map_or(Ok(()), |rows| self.trace.write(&rows))
    }

    fn finish(mut self) -> Result<(TableRows, TokenTimes), StoreError> {
        self.write_full_batches(1, || None)?;
        self.write_trace(None)?;
        self.server_figures.map_or(Ok(()), ServerFiguresFile::finish)?;
        let mut rows = TableRows::from([
            (Table::Trace.name(), self.trace.finish()?),
            (Table::Tokens.name(), self.tokens.finish()?),
        ]);
        if let Some(blocks) = self.blocks {
            rows.insert(Table::KvBlockLifecycle.name(), blocks.finish()?);
        }
        Ok((rows, self.token_memory.finish()?))
    }
}

/// Where tensors lie in the model file; a file that is gone only costs the file offsets.
fn file_tensors(record: &RunRecord) -> Vec<FileTensor> {
    let Ok(file) = GgufFile::open(&record.request.job.options.model) else { return Vec::new() };
    let tensors = file.tensors().iter();
    tensors.map(|tensor| FileTensor { name: tensor.name.clone(), file_offset: tensor.file_offset }).collect()
}

fn write_small_tables(
    run: &RunDir,
    labelled: &Labelled,
    collected: &Collected,
    compression: Compression,
) -> Result<TableRows, StoreError> {
    let batches =
        [(Table::RegionMap, region_map::batch(&labelled.regions)), (Table::Loss, loss::batch(&labelled.loss))];
    let mut rows = TableRows::new();
    for (table, batch) in batches.into_iter().filter(|(table, _)| !collected.has(*table)) {
        let mut writer = TableWriter::create_with(run.path(), table, compression)?;
        writer.write(&batch)?;
        rows.insert(table.name(), writer.finish()?);
    }
    Ok(rows)
}
