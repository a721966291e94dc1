//! Accesses that valgrind's lackey printed.

use std::path::Path;

use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::lackey::{LackeyAccess, LackeyClock, LackeyCounts, LackeyDecoder, SkipReason};
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::trace::{KindRow, TraceRow};
use dwell_events::{Basis, LossKind, OpType};
use dwell_metadata::{CollectorUse, RunMetadata, Timestamps};
use dwell_store::{RunDir, StoreError};
use serde_json::{Map, Value, json};

use super::accesses::{AccessSink, AccessSource, RULES_OPTION, RowOrder, UNKNOWN_OPTION};
use super::{ImportError, ImportOption, ImportRequest, ImportSummary, Imported, Importer, SummaryFigure, SummaryText};

const SOURCE: &str = "lackey";

/// Text of `valgrind --tool=lackey --trace-mem=yes`.
pub(super) struct Lackey;

impl Importer for Lackey {
    fn name(&self) -> &'static str {
        SOURCE
    }

    fn about(&self) -> &'static str {
        "Loads and stores that valgrind's lackey printed: every access, in order, without times"
    }

    fn files_help(&self) -> &'static str {
        "Output of `valgrind --tool=lackey --trace-mem=yes --log-file=FILE`, with or without its instruction lines. Several \
         files are taken as one recording, in this order"
    }

    fn options(&self) -> &'static [ImportOption] {
        &[RULES_OPTION, UNKNOWN_OPTION]
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let source = AccessSource { name: SOURCE, basis: Basis::Exact, order: RowOrder::ByTime };
        let (mut decoder, mut sink) = (LackeyDecoder::default(), AccessSink::create(run, request, source)?);
        for path in &request.files {
            read_file(path, &mut decoder, &mut sink)?;
        }
        let Some(clock) = decoder.clock() else { return Err(nothing_found(request, decoder.counts())) };
        let accesses = sink.finish()?;
        let counts = decoder.counts();
        let mut found = counts_found(counts);
        found.insert("accesses".to_owned(), json!(accesses.counts));
        Ok(Imported {
            metadata: RunMetadata {
                timestamps: Some(Timestamps::ordinal(unit_of(clock))),
                collectors: CollectorUse { used: vec![SOURCE.to_owned()], ..CollectorUse::default() },
                tables: accesses.tables,
                build: Some(accesses.build),
                ..RunMetadata::default()
            },
            loss: losses(counts).chain(accesses.loss).collect(),
            given: Some(accesses.given),
            found,
            summary: summary(counts, &accesses.counts.region_types),
        })
    }
}

fn unit_of(clock: LackeyClock) -> &'static str {
    match clock {
        LackeyClock::Instructions => "instructions",
        LackeyClock::Accesses => "accesses",
    }
}

/// Why reading a file stopped.
enum Stopped {
    Decoding(DecodeError),
    Importing(ImportError),
}

impl From<DecodeError> for Stopped {
    fn from(error: DecodeError) -> Self {
        Self::Decoding(error)
    }
}

fn read_file(path: &Path, decoder: &mut LackeyDecoder, sink: &mut AccessSink<'_>) -> Result<(), ImportError> {
    const READING: &str = "reading output of lackey";
    let mut file = dwell_files::open_with_end(path).map_err(|error| StoreError::from_io(READING, path, error))?;
    // There are no others, so these two keep their numbers.
    let (load, store) = (sink.kind_of(&kind(OpType::Load))?, sink.kind_of(&kind(OpType::Store))?);
    let row = |access: LackeyAccess| row(access, if access.is_store { store } else { load });
    let mut each = |access: LackeyAccess| sink.push_row(row(access)).map_err(Stopped::Importing);
    decoder.read(&mut file, &mut each).map_err(|stopped| match stopped {
        Stopped::Importing(error) => error,
        Stopped::Decoding(DecodeError { reason: DecodeReason::Read(error), .. }) => {
            StoreError::from_io(READING, path, error).into()
        }
        Stopped::Decoding(error) => ImportError::Refused { message: format!("{error}: {path:?}"), hints: Vec::new() },
    })
}

fn kind(op_type: OpType) -> TraceRow<'static> {
    TraceRow { op_type, source: SOURCE, ..TraceRow::EMPTY }
}

#[inline]
fn row(access: LackeyAccess, kind: u32) -> KindRow {
    KindRow {
        timestamp_ns: access.ordinal,
        address: access.address,
        size_bytes: access.size_bytes,
        period: 1,
        access_latency_ns: None,
        thread_id: None,
        cpu_id: None,
        kind,
    }
}

fn nothing_found(request: &ImportRequest, counts: &LackeyCounts) -> ImportError {
    let first = counts.skipped.iter().flat_map(|skipped| &skipped.first).min();
    let first = first.map_or_else(String::new, |(offset, text)| format!("; the line at byte {offset} is {text:?}"));
    ImportError::Refused {
        message: format!(
            "reading output of lackey found {} lines, none of them an access such as ` L 1ffeffff30,8`{first}: {:?}",
            counts.lines, request.files
        ),
        hints: vec!["record with `valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM`".to_owned()],
    }
}

/// Lines in which an access may have been.
fn losses(counts: &LackeyCounts) -> impl Iterator<Item = LossRow> {
    let lost = SkipReason::ALL.into_iter().filter(|reason| reason.is_loss());
    let lost = lost.map(|reason| (reason, &counts.skipped[reason as usize])).filter(|(_, lines)| lines.count > 0);
    let words: Vec<String> = lost.clone().map(|(reason, lines)| format!("{} {}", reason.name(), lines.count)).collect();
    let first = lost.clone().flat_map(|(_, lines)| &lines.first).min();
    let detail = first.map(|(offset, text)| format!("lines: {}; first at byte {offset}: {text:?}", words.join(", ")));
    let (count, bytes) = lost.fold((0, 0), |sum, (_, lines)| (sum.0 + lines.count, sum.1 + lines.bytes));
    let kind = LossKind::UndecodableRecords;
    detail.map(|detail| LossRow { kind, source: SOURCE, count, bytes: Some(bytes), detail }).into_iter()
}

fn counts_found(counts: &LackeyCounts) -> Map<String, Value> {
    let skipped = SkipReason::ALL.map(|reason| (reason.name(), &counts.skipped[reason as usize]));
    let skipped: Map<String, Value> = skipped
        .into_iter()
        .filter(|(_, lines)| lines.count > 0)
        .map(|(name, lines)| {
            let first: Vec<Value> =
                lines.first.iter().map(|(offset, text)| json!({ "byte": offset, "text": text })).collect();
            (name.to_owned(), json!({ "lines": lines.count, "bytes": lines.bytes, "first": first }))
        })
        .collect();
    let mut found = Map::new();
    for (name, value) in [
        ("bytes", json!(counts.bytes)),
        ("lines", json!(counts.lines)),
        ("instructions", json!(counts.instructions)),
        ("loads", json!(counts.loads)),
        ("stores", json!(counts.stores)),
        ("modifications", json!(counts.modifications)),
        ("skipped", Value::Object(skipped)),
    ] {
        found.insert(name.to_owned(), value);
    }
    found
}

fn summary(counts: &LackeyCounts, region_types: &std::collections::BTreeMap<&'static str, u64>) -> ImportSummary {
    use SummaryFigure::Count;
    let read = vec![Count(counts.lines), Count(counts.accesses()), Count(counts.instructions)];
    let skipped = |reason: SkipReason| counts.skipped[reason as usize].count;
    let passed_over = vec![
        (skipped(SkipReason::Valgrind), "lines of valgrind"),
        (skipped(SkipReason::OtherText), "lines of other text"),
        (skipped(SkipReason::BadNumber), "lines with an impossible number"),
        (skipped(SkipReason::TooLong), "lines that are too long"),
        (skipped(SkipReason::CutOff), "lines cut off"),
    ];
    ImportSummary {
        lines: vec![
            ("read", SummaryText::Sentence("{} lines with {} accesses and {} instructions", read)),
            ("skipped", SummaryText::Totals(passed_over)),
            (
                "times",
                SummaryText::Sentence("none: timestamps are an order, and no metric is given in seconds", Vec::new()),
            ),
        ],
        header: vec!["region", "accesses"],
        rows: region_types.iter().map(|(name, rows)| ((*name).to_owned(), vec![*rows])).collect(),
    }
}
