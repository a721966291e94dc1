//! A run directory from batches that were recorded elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_events::schema::{Table, loss};
use dwell_events::{RunKind, Severity};
use dwell_files::write_json_atomically;
use dwell_store::{
    ClockAnchor, ManifestRow, ResultsManifest, RunDir, RunState, TableWriter, unix_secs_now, utc_text, write_manifest,
};
use serde::Serialize;

use crate::error::ImportError;
use crate::raw::RawBatchWriter;
use crate::recording::{Recorded, Recording, RecordingForm};
use crate::sequence::{Arrival, Sequences};
use crate::tokens::TokenPolicy;
use crate::tracker::TrackOptions;
use crate::{KV_EVENTS_COLLECTOR, KV_EVENTS_STREAM, build_kv_blocks, decode_batch, losses};
use dwell_events::kv_blocks::KvBlocksReport;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// Recorded batches; each file goes on where the one before ended.
    pub files: Vec<PathBuf>,
    /// Folder of results.
    pub results: PathBuf,
    /// Name of the model.
    pub model_id: String,
    /// Name of the run; none for a fresh one.
    pub run_id: Option<String>,
    /// Bytes of keys and values that one token takes, if known.
    pub kv_bytes_per_token: Option<u64>,
    /// Whether token ids are kept; else they are hashed.
    pub keeps_token_ids: bool,
    /// What is hashed before them; none for a random salt.
    pub salt: Option<String>,
    /// Command line, for the metadata.
    pub command_line: Vec<String>,
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
    /// What was read.
    pub files: Vec<ImportedFile>,
    /// What is in it.
    #[serde(flatten)]
    pub report: KvBlocksReport,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedFile {
    /// Where it is.
    pub path: PathBuf,
    /// How its batches were recorded.
    pub form: RecordingForm,
    /// How many there are.
    pub batches: u64,
}

/// Makes a run of recorded batches. If that fails, nothing is left behind.
pub fn import_kv_events(request: &ImportRequest) -> Result<ImportReport, ImportError> {
    let run = match &request.run_id {
        Some(run_id) => RunDir::create(&request.results, &request.model_id, run_id)?,
        None => RunDir::create_fresh(&request.results, &request.model_id)?,
    };
    import_into(&run, request).inspect_err(|_| {
        let _ = std::fs::remove_dir_all(run.path());
        // A model without other runs has no folder.
        let _ = run.path().parent().map(std::fs::remove_dir);
    })
}

fn import_into(run: &RunDir, request: &ImportRequest) -> Result<ImportReport, ImportError> {
    let raw = run.raw_stream(KV_EVENTS_STREAM);
    let copied = copy_batches(&request.files, &raw)?;
    run.set_state(RunState::Building)?;
    let options = TrackOptions {
        // Nobody read another clock, so the run's time begins with its first batch.
        clock: ClockAnchor { monotonic_ns: 0, unix_ns: copied.first_unix_ns },
        kv_bytes_per_token: request.kv_bytes_per_token,
        tokens: token_policy(request)?,
    };
    let mut table = TableWriter::create(run.path(), Table::KvBlockLifecycle)?;
    let report = build_kv_blocks(&raw, &options, &mut table)?;
    table.finish()?;
    let losses = losses(&report);
    let mut loss_table = TableWriter::create(run.path(), Table::Loss)?;
    loss_table.write(&loss::batch(&losses))?;
    loss_table.finish()?;
    let is_partial = losses.iter().any(|row| row.kind.severity() == Severity::DataLoss);
    let report = ImportReport {
        run_dir: run.path().to_owned(),
        run_id: run.run_id().to_owned(),
        model_id: run.model_id().to_owned(),
        state: if is_partial { RunState::Partial } else { RunState::Complete },
        files: copied.files,
        report,
    };
    write_json_atomically(&run.metadata_json(), &Metadata::of(request, &report, options.clock, losses.len()))?;
    write_manifest(run)?;
    ResultsManifest::open(&request.results).record(&manifest_row(&report))?;
    // Last, because a run in its final state is one that has a manifest and a row.
    run.set_state(report.state)?;
    Ok(report)
}

fn token_policy(request: &ImportRequest) -> Result<TokenPolicy, ImportError> {
    match (request.keeps_token_ids, &request.salt) {
        (true, _) => Ok(TokenPolicy::Keep),
        (false, Some(salt)) => Ok(TokenPolicy::Hash { salt: salt.as_bytes().to_vec() }),
        (false, None) => TokenPolicy::hash_with_random_salt().map_err(|source| ImportError::NoSalt { source }),
    }
}

struct Copied {
    files: Vec<ImportedFile>,
    first_unix_ns: u64,
}

/// Puts the batches of all files into one raw stream, from which the table can be made again.
fn copy_batches(files: &[PathBuf], raw: &Path) -> Result<Copied, ImportError> {
    let mut writer = RawBatchWriter::create(raw)?;
    let mut numbering = Numbering::default();
    let mut copied = Vec::new();
    let mut first_unix_ns = None;
    let mut first_problem = None;
    for path in files {
        let (mut recording, form) = Recording::open(path)?;
        let mut batches = 0;
        while let Some(mut recorded) = recording.next()? {
            numbering.number(&mut recorded);
            if first_unix_ns.is_none() {
                match decode_batch(&recorded.batch.payload) {
                    Ok(events) => first_unix_ns = Some(events.unix_ns),
                    Err(error) => _ = first_problem.get_or_insert(error),
                }
            }
            writer.push(&recorded.batch)?;
            batches += 1;
        }
        copied.push(ImportedFile { path: path.clone(), form, batches });
    }
    writer.finish()?;
    match first_unix_ns {
        Some(first_unix_ns) => Ok(Copied { files: copied, first_unix_ns }),
        None => Err(ImportError::NoBatches { files: files.to_vec(), problem: first_problem }),
    }
}

/// Gives batches numbers and servers, over all files.
#[derive(Default)]
struct Numbering {
    sequences: Sequences,
    /// The server that the file before named.
    named_publisher: Option<u32>,
}

impl Numbering {
    fn number(&mut self, recorded: &mut Recorded) {
        let batch = &mut recorded.batch;
        match recorded.sequence {
            Some(sequence) => {
                let is_another = self.named_publisher.is_some_and(|publisher| publisher != batch.publisher);
                self.named_publisher = Some(batch.publisher);
                if is_another {
                    self.sequences.restart();
                }
                batch.sequence = sequence;
                if self.sequences.arrive(sequence) != Arrival::Duplicate {
                    self.sequences.deliver(sequence);
                }
            }
            None => {
                batch.sequence = self.sequences.next();
                self.sequences.deliver(batch.sequence);
            }
        }
        batch.publisher = self.sequences.publisher();
    }
}

/// `metadata.json` of an imported run: the keys that every run has, as far as they are known, and `kv_events`.
#[derive(Serialize)]
struct Metadata<'a> {
    metadata_schema_version: &'static str,
    run_id: &'a str,
    model_id: &'a str,
    state: &'static str,
    started_at_utc: String,
    imported_at_utc: String,
    dwell_version: &'static str,
    command_line: &'a [String],
    clock: ClockAnchor,
    engine: &'static str,
    collectors: Collectors,
    tables: BTreeMap<&'static str, TableFacts>,
    kv_events: KvEventsFacts<'a>,
}

#[derive(Serialize)]
struct Collectors {
    used: [&'static str; 1],
    fallbacks: [(); 0],
}

#[derive(Serialize)]
struct TableFacts {
    rows: u64,
    basis: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct KvEventsFacts<'a> {
    files: &'a [ImportedFile],
    kv_bytes_per_token: Option<u64>,
    token_ids: &'static str,
    salt: Option<&'static str>,
    #[serde(flatten)]
    report: &'a KvBlocksReport,
}

impl<'a> Metadata<'a> {
    fn of(request: &'a ImportRequest, import: &'a ImportReport, clock: ClockAnchor, losses: usize) -> Self {
        let facts = |rows| TableFacts { rows, basis: "reported", source: KV_EVENTS_COLLECTOR };
        let salt = if request.salt.is_some() { "given" } else { "random" };
        Self {
            metadata_schema_version: "1.1",
            run_id: &import.run_id,
            model_id: &import.model_id,
            state: import.state.name(),
            started_at_utc: utc_text(clock.unix_ns / 1_000_000_000),
            imported_at_utc: utc_text(unix_secs_now()),
            dwell_version: env!("CARGO_PKG_VERSION"),
            command_line: &request.command_line,
            clock,
            engine: "imported",
            collectors: Collectors { used: [KV_EVENTS_COLLECTOR], fallbacks: [] },
            tables: BTreeMap::from([
                (Table::KvBlockLifecycle.name(), facts(import.report.rows)),
                (Table::Loss.name(), facts(losses as u64)),
            ]),
            kv_events: KvEventsFacts {
                files: &import.files,
                kv_bytes_per_token: request.kv_bytes_per_token,
                token_ids: if request.keeps_token_ids { "kept" } else { "hashed" },
                salt: (!request.keeps_token_ids).then_some(salt),
                report: &import.report,
            },
        }
    }
}

fn manifest_row(import: &ImportReport) -> ManifestRow {
    let report = &import.report;
    let span_ns = report.first_unix_ns.zip(report.last_unix_ns).map(|(first, last)| last.saturating_sub(first));
    ManifestRow {
        run_id: import.run_id.clone(),
        model_id: import.model_id.clone(),
        collector: KV_EVENTS_COLLECTOR.to_owned(),
        run_validity: "unknown".to_owned(),
        total_wall_s: span_ns.map(|span_ns| span_ns as f64 / 1e9),
        recorded_at: utc_text(report.first_unix_ns.unwrap_or(0) / 1_000_000_000),
        state: import.state.name().to_owned(),
        kind: RunKind::Single.name().to_owned(),
        path: format!("{}/{}", import.model_id, import.run_id),
        ..ManifestRow::default()
    }
}
