//! Memory lined up with tokens: the columns of the tokens table, `tokens_memory.csv`, and the report on both.

use std::path::PathBuf;

use dwell_analysis::Basis;
use dwell_analysis::memory::{
    KvTheory, MemoryAt, MemoryInputs, MemoryReport, MemorySeries, ModelStart, TokenTimes, Weights,
};
use dwell_events::csv_cell;
use dwell_events::engine::KvType;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::server::ServerDescription;
use dwell_files::AtomicFile;
use dwell_gguf::{GgufFile, MemoryRequest, ModelShape};
use dwell_label::Labelled;
use dwell_metadata::{PageCache, RunRecord, RunRequest};
use dwell_store::{ClockAnchor, RunDir, StoreError};

/// Name of the file.
const FILE_NAME: &str = "tokens_memory.csv";
const BYTES_PER_MB: f64 = 1_048_576.0;

/// Columns of `tokens_memory.csv`. Sizes are mebibytes, as in `memory.csv`.
const COLUMNS: [&str; 13] = [
    "token_index",
    "step",
    "sequence",
    "is_generated",
    "timestamp",
    "text",
    "rss_mb",
    "pss_mb",
    "anon_mb",
    "file_mb",
    "gpu_mb",
    "kv_mb",
    "sample_gap_ms",
];

/// Gives tokens the memory of their moment while they are written.
pub(crate) struct TokenMemory<'a> {
    series: &'a MemorySeries,
    anchor: ClockAnchor,
    times: TokenTimes,
    csv: csv::Writer<AtomicFile>,
    path: PathBuf,
}

impl<'a> TokenMemory<'a> {
    /// Begins `tokens_memory.csv` of a run.
    pub(crate) fn create(run: &RunDir, series: &'a MemorySeries, anchor: ClockAnchor) -> Result<Self, StoreError> {
        let path = run.path().join(FILE_NAME);
        let csv = csv::Writer::from_writer(AtomicFile::create(&path)?);
        let mut memory = Self { series, anchor, times: TokenTimes::default(), csv, path };
        memory.write(&COLUMNS)?;
        Ok(memory)
    }

    /// Fills the columns about memory of rows that are about to be written.
    pub(crate) fn note(&mut self, rows: &mut [TokenRow]) -> Result<(), StoreError> {
        for row in rows {
            let memory = self.series.at(row.end_ns);
            row.rss_bytes = memory.rss_bytes;
            row.pss_bytes = memory.pss_bytes;
            row.anon_bytes = memory.anon_bytes;
            row.gpu_bytes = memory.gpu_bytes;
            // A token has at least the cells of its prompt: none were seen where nothing is traced.
            row.kv_bytes = row.kv_bytes.filter(|bytes| *bytes > 0);
            self.times.push(row);
            let fields = self.fields(row, &memory);
            self.write(&fields)?;
        }
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<TokenTimes, StoreError> {
        let failed = |error: csv::IntoInnerError<_>| {
            StoreError::from_io("writing memory per token", &self.path, error.into_error())
        };
        self.csv.into_inner().map_err(failed)?.commit()?;
        Ok(self.times)
    }

    fn fields(&self, row: &TokenRow, memory: &MemoryAt) -> [String; COLUMNS.len()] {
        let micros = self.anchor.unix_ns_at(row.end_ns) / 1_000;
        let mb = |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| (bytes as f64 / BYTES_PER_MB).to_string());
        [
            row.token_index.to_string(),
            row.step.to_string(),
            row.sequence.to_string(),
            row.is_generated.to_string(),
            format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000),
            csv_cell(&row.text).into_owned(),
            mb(memory.rss_bytes),
            mb(memory.pss_bytes),
            mb(memory.anon_bytes),
            mb(memory.file_bytes),
            mb(memory.gpu_bytes),
            mb(row.kv_bytes),
            memory.gap_ns.map_or_else(String::new, |gap_ns| format!("{:.3}", gap_ns as f64 / 1e6)),
        ]
    }

    fn write(&mut self, fields: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
        self.csv
            .write_record(fields)
            .map_err(|error| StoreError::from_io("writing memory per token", &self.path, std::io::Error::other(error)))
    }
}

/// The report on the memory of a run whose records were labelled.
pub(crate) fn memory_report(
    record: &RunRecord,
    labelled: &Labelled,
    series: &MemorySeries,
    tokens: &TokenTimes,
) -> MemoryReport {
    let outcome = &labelled.outcome;
    let server = outcome.server.as_ref();
    let model = model_file(&record.request, server);
    MemoryReport::of(&MemoryInputs {
        series,
        tokens,
        phases: &labelled.phases,
        requests: &outcome.requests,
        buffers: &outcome.buffers,
        weights: model
            .as_ref()
            .map(|file| Weights { bytes: file.tensor_bytes(), is_mapped: is_mapped(&record.request, server) }),
        theory: theory(&record.request, server, model.as_ref()),
        start: start(record, server),
        peak_rss_bytes: outcome.peak_rss_bytes,
        traced_kv: (labelled.steps > 0).then_some(labelled.kv_accesses),
    })
}

/// The model's file, if it is on this machine.
fn model_file(request: &RunRequest, server: Option<&ServerDescription>) -> Option<GgufFile> {
    let told = server.and_then(|server| server.model_path.as_deref());
    GgufFile::open(told.unwrap_or(&request.job.options.model)).ok()
}

/// Known for llama.cpp as far as dwell gave it its options.
fn is_mapped(request: &RunRequest, server: Option<&ServerDescription>) -> Option<bool> {
    let job = &request.job;
    let is_started_here = server.is_none_or(|server| server.is_started_here);
    (job.engine.profile().follows_mmap && is_started_here).then_some(job.options.mmap)
}

/// By the shape in the model's file, else by what the server says, else by what the user says.
fn theory(request: &RunRequest, server: Option<&ServerDescription>, file: Option<&GgufFile>) -> Option<KvTheory> {
    let memory = memory_request(request, server);
    let cells = cache_positions(request, server);
    let by_file = || {
        let (shape, memory) = (ModelShape::from_gguf(file?).ok()?, memory?);
        let bytes_per_token = shape.kv_bytes_per_token(memory.kv_type_k, memory.kv_type_v).ok()?;
        let cache_bytes = cells.and_then(|_| shape.kv_bytes(&memory).ok());
        let basis = if are_types_known(request, server) { Basis::Exact } else { Basis::Inferred };
        let state_bytes = shape.state_bytes_per_sequence().saturating_mul(memory.parallel.max(1).into());
        Some(KvTheory { bytes_per_token, cache_bytes, state_bytes: Some(state_bytes), basis })
    };
    let by_word = |bytes_per_token: u64, basis| {
        let cache_bytes = cells.map(|cells| cells.saturating_mul(bytes_per_token));
        KvTheory { bytes_per_token, cache_bytes, state_bytes: None, basis }
    };
    let told = server.and_then(|server| server.kv_bytes_per_token);
    by_file()
        .or_else(|| told.map(|bytes| by_word(bytes, Basis::Reported)))
        .or_else(|| request.job.server.kv_bytes_per_token.map(|bytes| by_word(bytes, Basis::Inferred)))
}

/// Whether the types of keys and values were told or given; else those of the request stand in for them.
fn are_types_known(request: &RunRequest, server: Option<&ServerDescription>) -> bool {
    let are_told = |server: &ServerDescription| server.kv_type_k.is_some() && server.kv_type_v.is_some();
    server.is_none_or(|server| is_set_up_here(request, server) || are_told(server))
}

/// Whether the options of the request are those of the engine: a server that runs already has others, and so has a command.
fn is_set_up_here(request: &RunRequest, server: &ServerDescription) -> bool {
    server.is_started_here && request.job.engine.profile().takes_prompts
}

/// The cache as it was set up: what the server says counts more than what was asked for. None if it has a type of
/// values whose size is not known.
fn memory_request(request: &RunRequest, server: Option<&ServerDescription>) -> Option<MemoryRequest> {
    let mut memory = MemoryRequest::from(&request.job.options);
    let Some(server) = server else { return Some(memory) };
    let kv_type = |told: &Option<String>, asked: KvType| match told {
        Some(name) => KvType::from_name(&name.to_lowercase()),
        None => Some(asked),
    };
    memory.kv_type_k = kv_type(&server.kv_type_k, memory.kv_type_k)?;
    memory.kv_type_v = kv_type(&server.kv_type_v, memory.kv_type_v)?;
    memory.parallel = server.slots.unwrap_or(memory.parallel);
    memory.kv_unified = server.shares_context.unwrap_or(memory.kv_unified);
    if let Some(positions) = cache_positions(request, Some(server)) {
        memory.context_length = u32::try_from(positions).unwrap_or(u32::MAX);
    }
    Some(memory)
}

/// Positions of the KV cache: what a server says, or what it was started with.
fn cache_positions(request: &RunRequest, server: Option<&ServerDescription>) -> Option<u64> {
    match server {
        Some(server) if server.context_length.is_some() || !is_set_up_here(request, server) => {
            server.context_positions()
        }
        _ => {
            let is_set = request.job.engine.profile().takes_option("context_length", false);
            is_set.then(|| u64::from(request.job.options.context_length))
        }
    }
}

fn start(record: &RunRecord, server: Option<&ServerDescription>) -> ModelStart {
    let share = |cache: &PageCache| cache.resident_bytes as f64 / cache.model_bytes as f64;
    ModelStart {
        asked: record.request.job.server.start,
        was_loaded: match server {
            Some(server) => server.was_loaded,
            None => record.request.job.engine.is_embedded().then_some(false),
        },
        model_cached_share: record.page_cache.as_ref().map(share).filter(|share| share.is_finite()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn generated_text_that_a_spreadsheet_would_calculate_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path(), "m", "r").unwrap();
        let series = MemorySeries::default();
        let mut memory = TokenMemory::create(&run, &series, ClockAnchor { monotonic_ns: 0, unix_ns: 0 }).unwrap();
        let token = TokenRow {
            token_index: 0,
            step: 1,
            sequence: 0,
            position: None,
            token_id: None,
            text: "=HYPERLINK(1)".to_owned(),
            is_generated: true,
            begin_ns: 1,
            end_ns: 2,
            rss_bytes: None,
            kv_bytes: None,
            pss_bytes: None,
            anon_bytes: None,
            gpu_bytes: None,
        };
        memory.note(&mut [token]).unwrap();
        memory.finish().unwrap();
        let text = std::fs::read_to_string(run.path().join(FILE_NAME)).unwrap();
        assert!(text.contains(",'=HYPERLINK(1),"), "{text}");
    }
}
