//! A run as a Perfetto trace: phases, requests, tokens, layers and operations as slices; traffic, memory, KV cache and pressure
//! as counters.

mod operations;
mod protocol;
mod tracks;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use dwell_analysis::overview::Overview;
use dwell_events::schema::Table;
use dwell_files::AtomicFile;
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, number_at, text_at};
use serde::Serialize;

use crate::ReportError;
use crate::page::{open_table, overview_of, sampled};
use crate::run_results::RunResults;
use crate::text::model_title_of;
use operations::OperationSlices;
use tracks::{CounterUnit, Slice, Track, TrackWriter};

/// Columns of `trace` that are exported.
const TRACE_COLUMNS: [&str; 9] =
    ["timestamp_ns", "op_type", "symbol", "region_type", "size_bytes", "tensor", "layer", "step", "phase"];

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerfettoReport {
    /// Tokens, each a slice.
    pub tokens: u64,
    /// Operations, each a slice.
    pub operations: u64,
    /// Bytes that they loaded.
    pub read_bytes: u64,
    /// Bytes that they stored.
    pub written_bytes: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// What the nanoseconds of the file count instead if the recording has no clock, such as `instructions`.
    pub time_unit: Option<String>,
}

/// Writes a run as a Perfetto trace. The file appears whole or not at all; until then it grows in `staging`.
pub fn export_perfetto(run: &RunDir, target: &Path, staging: PathBuf) -> Result<PerfettoReport, ReportError> {
    let results = RunResults::load(run)?;
    let overview = overview_of(run, &results)?;
    let metadata = &results.metadata;
    let mut file = AtomicFile::create_staged(target, staging)?;
    let written = |error: io::Error| ReportError::from_io("writing a Perfetto trace", target, error);
    let mut counted = CountedBytes { output: io::BufWriter::new(&mut file), bytes: 0 };
    // Perfetto knows no other unit of time.
    let unit =
        metadata.time_unit().map_or_else(String::new, |unit| format!(" (no clock: each ns is one of the {unit})"));
    let title = format!("dwell {}: {}{unit}", metadata.run_id, model_title_of(metadata));
    let mut writer = TrackWriter::new(&mut counted, &title).map_err(written)?;
    write_phases(&mut writer, metadata, overview.last_ns).map_err(written)?;
    let tokens = write_tokens(run.path(), &mut writer, written)?;
    let operations = write_operations(run.path(), &mut writer, written)?;
    write_traffic(&mut writer, &overview, metadata.time_unit()).map_err(written)?;
    write_samples(run.path(), &mut writer, written)?;
    counted.output.flush().map_err(written)?;
    let size_bytes = counted.bytes;
    drop(counted);
    file.commit()?;
    Ok(PerfettoReport { tokens, size_bytes, time_unit: metadata.time_unit().map(str::to_owned), ..operations })
}

/// Counts what passes.
struct CountedBytes<W> {
    output: W,
    bytes: u64,
}

impl<W: Write> Write for CountedBytes<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn plain(name: &str, begin_ns: u64, end_ns: u64) -> Slice<'_> {
    Slice { name, begin_ns, end_ns, numbers: &[], texts: &[], flow: None }
}

fn write_phases(writer: &mut TrackWriter<impl Write>, metadata: &RunMetadata, last_ns: u64) -> io::Result<()> {
    let track = writer.slices("Phases")?;
    for phase in &metadata.phases {
        writer.slice(track, &plain(phase.phase.name(), phase.begin_ns, phase.end_ns))?;
    }
    for (index, request) in metadata.requests.iter().enumerate() {
        // Requests of different sequences overlap, so each has a track.
        let track = writer.slices(&format!("Request {}", index + 1))?;
        let end_ns = request.end_ns.unwrap_or(last_ns);
        let flow = Some(index as u64 + 1);
        let name = format!("sequence {}", request.sequence);
        writer.slice(track, &Slice { flow, ..plain(&name, request.begin_ns, end_ns) })?;
        if let Some(first_ns) = request.first_token_ns {
            writer.slice(track, &Slice { flow, ..plain("to the first token", request.begin_ns, first_ns) })?;
        }
    }
    Ok(())
}

/// Tokens of each sequence on a track of its own; several that one computation gave share its time.
fn write_tokens(
    run: &Path,
    writer: &mut TrackWriter<impl Write>,
    written: impl Fn(io::Error) -> ReportError + Copy,
) -> Result<u64, ReportError> {
    let columns =
        ["token_index", "sequence", "position", "step", "text", "is_generated", "begin_ns", "end_ns", "kv_bytes"];
    let Some(table) = open_table(run, Table::Tokens, &columns)? else { return Ok(0) };
    let kv = writer.counter("KV cache, living blocks", CounterUnit::Bytes).map_err(written)?;
    let mut sequences: Vec<(i32, Track)> = Vec::new();
    let mut tokens = 0;
    for batch in table {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let sequence = number_at::<Int32Type>(&batch, "sequence", row).unwrap_or(0);
            let track = match sequences.iter().find(|(known, _)| *known == sequence) {
                Some((_, track)) => *track,
                None => {
                    let track = writer.slices(&format!("Tokens of sequence {sequence}")).map_err(written)?;
                    sequences.push((sequence, track));
                    track
                }
            };
            write_token(writer, (track, kv), &batch, row).map_err(written)?;
            tokens += 1;
        }
    }
    Ok(tokens)
}

fn write_token(
    writer: &mut TrackWriter<impl Write>,
    (track, kv): (Track, Track),
    batch: &RecordBatch,
    row: usize,
) -> io::Result<()> {
    let wide = |column| number_at::<UInt64Type>(batch, column, row);
    let number = |column| number_at::<UInt32Type>(batch, column, row).map_or(0, u64::from);
    let position = number_at::<Int32Type>(batch, "position", row).and_then(|position| u64::try_from(position).ok());
    let mut numbers = vec![("token_index", number("token_index")), ("step", number("step"))];
    numbers.extend(position.map(|position| ("position", position)));
    let text = text_at(batch, "text", row).unwrap_or_default();
    let (begin_ns, end_ns) = (wide("begin_ns").unwrap_or(0), wide("end_ns").unwrap_or(0));
    writer.slice(track, &Slice { numbers: &numbers, texts: &[("text", text)], ..plain("token", begin_ns, end_ns) })?;
    match wide("kv_bytes") {
        Some(bytes) => writer.count(kv, end_ns, bytes),
        None => Ok(()),
    }
}

fn write_operations(
    run: &Path,
    writer: &mut TrackWriter<impl Write>,
    written: impl Fn(io::Error) -> ReportError + Copy,
) -> Result<PerfettoReport, ReportError> {
    let Some(table) = open_table(run, Table::Trace, &TRACE_COLUMNS)? else { return Ok(PerfettoReport::default()) };
    let mut slices = OperationSlices::new(writer).map_err(written)?;
    for batch in table {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            slices.push(&batch, row).map_err(written)?;
        }
    }
    slices.finish().map_err(written)
}

/// Bytes per second, or per million of what timestamps count instead.
fn write_traffic(writer: &mut TrackWriter<impl Write>, overview: &Overview, time_unit: Option<&str>) -> io::Result<()> {
    let traffic = &overview.traffic;
    let per = time_unit.map_or_else(|| "bytes/s".to_owned(), |unit| format!("bytes per million {unit}"));
    let bins_per_unit = traffic.axis.bin_ns as f64 / if time_unit.is_some() { 1e6 } else { 1e9 };
    for series in &traffic.series {
        for (words, bytes) in [("read", &series.read_bytes), ("written", &series.written_bytes)] {
            let track = writer.counter(&format!("{}: {words}", series.region_type), CounterUnit::Named(&per))?;
            for (bin, &bytes) in (0u64..).zip(bytes) {
                let now_ns = traffic.axis.first_bin_ns + bin * traffic.axis.bin_ns;
                writer.count_share(track, now_ns, bytes as f64 / bins_per_unit)?;
            }
        }
    }
    Ok(())
}

fn write_samples(
    run: &Path,
    writer: &mut TrackWriter<impl Write>,
    written: impl Fn(io::Error) -> ReportError + Copy,
) -> Result<(), ReportError> {
    for samples in sampled(run, 0)? {
        for series in &samples.series {
            let unit = if samples.unit == "bytes" { CounterUnit::Bytes } else { CounterUnit::Named("%") };
            let track = writer.counter(series.title, unit).map_err(written)?;
            for (&time_s, &value) in samples.time_s.iter().zip(&series.values) {
                let Some(value) = value else { continue };
                writer.count_share(track, (time_s * 1e9).round() as u64, value).map_err(written)?;
            }
        }
    }
    Ok(())
}
