//! KV cache events of vLLM and SGLang, recorded by any subscriber.

use dwell_events::kv_blocks::KvBlocksReport;
use dwell_events::schema::Table;
use dwell_events::{ClockAnchor, CollectorName, Hint};
use dwell_kv_events::{
    CopiedFile, CopiedRecordings, KV_EVENTS_STREAM, RecordingError, TokenPolicy, TrackOptions, build_kv_blocks,
    copy_recordings, losses,
};
use dwell_metadata::{ImportedFile, KvEventsImport, RunMetadata, TableOrigin};
use dwell_store::{RunDir, TableWriter, utc_text};
use serde_json::{Map, Value};

use super::{
    ImportError, ImportOption, ImportRequest, ImportSummary, Imported, Importer, SummaryFigure, SummaryText, Takes,
};
use crate::metadata::collectors_about;

const BYTES_PER_TOKEN: &str = "kv-bytes-per-token";
const KEEP_TOKEN_IDS: &str = "keep-token-ids";
const SALT: &str = "salt";

/// KV cache events.
pub(super) struct KvEvents;

impl Importer for KvEvents {
    fn name(&self) -> &'static str {
        "kv-events"
    }

    fn about(&self) -> &'static str {
        "KV cache events of vLLM or SGLang: lives of their KV blocks"
    }

    fn files_help(&self) -> &'static str {
        "Recorded batches: kv_events.arrows of a run, payloads each behind its length in 4 bytes (big-endian), or one \
         batch of JSON per line. Several files are taken as one recording, in this order"
    }

    fn options(&self) -> &'static [ImportOption] {
        &[
            ImportOption {
                name: BYTES_PER_TOKEN,
                takes: Takes::Number("BYTES"),
                help: "Bytes of keys and values that one token takes in all layers; gives blocks their size",
                conflicts_with: None,
                is_secret: false,
            },
            ImportOption {
                name: KEEP_TOKEN_IDS,
                takes: Takes::Nothing,
                help: "Keep the token ids of each block. Without, a salted hash of them is kept",
                conflicts_with: None,
                is_secret: false,
            },
            ImportOption {
                name: SALT,
                takes: Takes::Text("TEXT"),
                help: "Salt of that hash, so that several imports can be compared. Default: random, and not kept",
                conflicts_with: Some(KEEP_TOKEN_IDS),
                is_secret: true,
            },
        ]
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let raw = run.raw_stream(KV_EVENTS_STREAM);
        let copied = copy_recordings(&request.files, &raw).map_err(refused)?;
        let options = TrackOptions {
            // No other clock was read, so the run's time begins with its first batch.
            clock: ClockAnchor { monotonic_ns: 0, unix_ns: copied.first_unix_ns },
            kv_bytes_per_token: request.options.get(BYTES_PER_TOKEN).and_then(|bytes| bytes.parse().ok()),
            tokens: token_policy(request)?,
        };
        let mut table = TableWriter::create(run.path(), Table::KvBlockLifecycle)?;
        let report = build_kv_blocks(&raw, &options, Vec::new(), &mut table)?;
        table.finish()?;
        let events = events_import(request, &copied, options.kv_bytes_per_token, report.clone());
        Ok(Imported {
            found: found(&events),
            metadata: metadata(options.clock, events),
            loss: losses(&report),
            given: None,
            summary: summary(&report),
        })
    }
}

fn refused(error: RecordingError) -> ImportError {
    match error {
        RecordingError::Store(error) => error.into(),
        other => ImportError::Refused { message: other.to_string(), hints: other.hints() },
    }
}

fn token_policy(request: &ImportRequest) -> Result<TokenPolicy, ImportError> {
    let no_salt = |source: std::io::Error| ImportError::Refused {
        message: format!("making a salt for token ids failed with {source}"),
        hints: vec!["give one with `--salt TEXT`".to_owned()],
    };
    match request.options.get(SALT) {
        _ if request.options.contains_key(KEEP_TOKEN_IDS) => Ok(TokenPolicy::Keep),
        Some(salt) => Ok(TokenPolicy::Hash { salt: salt.as_bytes().to_vec() }),
        None => TokenPolicy::hash_with_random_salt().map_err(no_salt),
    }
}

fn events_import(
    request: &ImportRequest,
    copied: &CopiedRecordings,
    kv_bytes_per_token: Option<u64>,
    report: KvBlocksReport,
) -> KvEventsImport {
    let keeps_ids = request.options.contains_key(KEEP_TOKEN_IDS);
    let salt = if request.options.contains_key(SALT) { "given" } else { "random" };
    let file = |file: &CopiedFile| ImportedFile {
        path: file.path.clone(),
        form: file.form.name().to_owned(),
        batches: file.batches,
    };
    KvEventsImport {
        files: copied.files.iter().map(file).collect(),
        kv_bytes_per_token,
        token_ids: if keeps_ids { "kept" } else { "hashed" }.to_owned(),
        salt: (!keeps_ids).then(|| salt.to_owned()),
        report,
    }
}

fn metadata(clock: ClockAnchor, events: KvEventsImport) -> RunMetadata {
    let blocks = TableOrigin {
        rows: events.report.rows,
        basis: "reported".to_owned(),
        source: CollectorName::KV_EVENTS.name().to_owned(),
    };
    RunMetadata {
        started_at_utc: utc_text(clock.unix_ns / 1_000_000_000),
        clock: Some(clock),
        collectors: collectors_about(&[CollectorName::KV_EVENTS]),
        tables: [(Table::KvBlockLifecycle.name().to_owned(), blocks)].into(),
        kv_events: Some(events),
        ..RunMetadata::default()
    }
}

/// Files and counts; how the import was asked for is in the metadata.
fn found(events: &KvEventsImport) -> Map<String, Value> {
    let as_map = |value: serde_json::Result<Value>| match value {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let mut found = as_map(serde_json::to_value(&events.report));
    found.extend(serde_json::to_value(&events.files).ok().map(|files| ("files".to_owned(), files)));
    found
}

fn summary(report: &KvBlocksReport) -> ImportSummary {
    use SummaryFigure::{Count, Seconds};
    let blocks = &report.blocks;
    let span_s =
        report.first_unix_ns.zip(report.last_unix_ns).map(|(first, last)| last.saturating_sub(first) as f64 / 1e9);
    let read = vec![Count(report.batches), Count(blocks.events), Seconds(span_s)];
    let lifetimes = vec![Seconds(blocks.lifetime_p50_s), Seconds(blocks.lifetime_p99_s)];
    let fates = vec![
        (blocks.stored, "stored"),
        (blocks.reused_blocks, "of them reused"),
        (blocks.removed, "removed"),
        (blocks.cleared, "cleared"),
        (blocks.ended_with_server, "gone with their server"),
        (blocks.alive, "alive at the end"),
    ];
    let lost = vec![
        (report.lost_batches, "batches lost"),
        (report.undecodable_batches, "batches not decodable"),
        (blocks.unmatched, "removals without a store"),
        (blocks.not_followed, "blocks not followed"),
        (report.unseen_batches, "batches before the first"),
        (blocks.unknown_events, "events of unknown kinds"),
    ];
    ImportSummary {
        lines: vec![
            ("read", SummaryText::Sentence("{} batches with {} events over {}", read)),
            ("blocks", SummaryText::Totals(fates)),
            ("lifetime", SummaryText::Sentence("p50 {}, p99 {}", lifetimes)),
            ("lost", SummaryText::Totals(lost)),
        ],
        header: vec!["medium", "stored", "ended", "alive"],
        rows: blocks
            .media
            .iter()
            .map(|(medium, counts)| (medium.clone(), vec![counts.stored, counts.ended, counts.alive]))
            .collect(),
    }
}
