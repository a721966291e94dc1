//! What the two forms of perf's recordings have in common: from samples to accesses.
//!
//! - The operation is what the data source says. Without one, the event's name tells loads from stores (`mem-loads`,
//!   `mem-stores`); else `--unknown-op` decides, and by default the sample is left out and counted.
//! - Prefetches and fetches of instructions are no loads or stores of a program's data. They are counted.
//! - perf records latencies in cycles. They become nanoseconds only by a stated clock (`--cpu-mhz`), never by a guess: the
//!   clock of a core changes, and no recording states it.
//! - No sample states its size: a row is one byte.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use dwell_decode::data_source::{DataSource, MemoryOp};
use dwell_decode::error::DecodeError;
use dwell_events::schema::loss::LossRow;
use dwell_events::schema::trace::{KindRow, TraceRow};
use dwell_events::{Basis, LossKind, OpType};
use dwell_files::{FileError, open_ordinary};
use dwell_metadata::{CollectorAbout, CollectorUse, ImportOrigin, RunMetadata};
use dwell_store::{RunDir, StoreError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::{Map, Value};

use super::accesses::{AccessSink, AccessSource, Accesses, RULES_OPTION, RowOrder, UNKNOWN_OPTION};
use super::{ImportError, ImportOption, ImportRequest, ImportSummary, Imported, SummaryFigure, SummaryText, Takes};

/// Name of the source, as in the column `source`.
pub(super) const SOURCE: &str = "perf_mem";

/// Samples that come in the order of time.
pub(crate) const BY_TIME: AccessSource = AccessSource { name: SOURCE, basis: Basis::Sampled, order: RowOrder::ByTime };

/// Kinds of samples that are remembered.
const KINDS_MAX: usize = 1 << 16;

const CPU_MHZ: &str = "cpu-mhz";
const UNKNOWN_OP: &str = "unknown-op";

/// Options of both forms.
pub(super) const OPTIONS: [ImportOption; 4] = [
    RULES_OPTION,
    UNKNOWN_OPTION,
    ImportOption {
        name: CPU_MHZ,
        takes: Takes::Number("MHZ"),
        help: "Clock of the cores, by which latencies become nanoseconds. Without, they are left out and counted",
        conflicts_with: None,
        is_secret: false,
    },
    ImportOption {
        name: UNKNOWN_OP,
        takes: Takes::OneOf("OP", &["skip", "load", "store"]),
        help: "Operation of samples that do not say theirs, such as page faults. Default: skip and count",
        conflicts_with: None,
        is_secret: false,
    },
];

/// A sample, whichever form it was read from.
pub(crate) struct PerfAccess<'a> {
    pub time_ns: Option<u64>,
    pub address: Option<u64>,
    pub data_source: Option<DataSource>,
    pub event: &'a str,
    pub cycles: Option<u64>,
    pub symbol: &'a str,
    pub dso: &'a str,
    pub cpu: Option<u32>,
    pub thread: Option<u32>,
    /// 0 if it is not known.
    pub period: u64,
    /// If it is known: the same in samples with the same data source, event, symbol and file, and in no others.
    pub alike: Option<(u64, u64)>,
}

/// What samples that are alike have in common.
#[derive(Clone, Copy)]
struct SampleKind {
    /// Place in [`PerfSink::events`].
    event: usize,
    /// Number of the kind of their accesses, or why they are none.
    access: Result<u32, NoAccess>,
}

/// What a sample is that is neither load nor store.
#[derive(Clone, Copy)]
enum NoAccess {
    Prefetch,
    InstructionFetch,
    Unknown,
}

/// What a recording says of itself.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PerfRecording {
    /// `perf.data` or `perf script`.
    pub form: &'static str,
    /// Clock of the times: `CLOCK_MONOTONIC`, another of `clock_gettime`, `scheduler`, or `unknown`.
    pub clock: String,
    /// Name of the machine, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Release of its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_release: Option<String>,
    /// Its processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Version of perf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_version: Option<String>,
    /// Command line of `perf record`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded_with: Vec<String>,
    /// Files with the sampled instructions, by whether their functions could be named; none for texts, which name them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<BTreeMap<&'static str, u64>>,
}

/// What became of samples.
#[derive(Default)]
struct SampleCounts {
    accesses: u64,
    without_time: u64,
    without_address: u64,
    without_op: u64,
    prefetches: u64,
    instruction_fetches: u64,
    latencies_in_cycles: u64,
}

/// Takes samples and makes accesses of them.
pub(crate) struct PerfSink<'a> {
    sink: AccessSink<'a>,
    cpu_mhz: Option<u64>,
    unknown_op: Option<OpType>,
    counts: SampleCounts,
    /// Samples of each event. A recording has two or three, so they are found faster one by one than in a tree.
    events: Vec<(String, u64)>,
    kinds: FxHashMap<(u64, u64), SampleKind>,
    /// [`AccessSink::kind_age`] of their numbers.
    kind_age: u64,
}

impl<'a> PerfSink<'a> {
    /// Takes samples of a recording that is imported.
    pub fn create(run: &'a RunDir, request: &ImportRequest, order: RowOrder) -> Result<Self, ImportError> {
        let cpu_mhz = request.options.get(CPU_MHZ).and_then(|mhz| mhz.parse().ok());
        let unknown_op = match request.options.get(UNKNOWN_OP).map(String::as_str) {
            Some("load") => Some(OpType::Load),
            Some("store") => Some(OpType::Store),
            _ => None,
        };
        let sink = AccessSink::create(run, request, AccessSource { order, ..BY_TIME })?;
        Ok(Self { cpu_mhz, unknown_op, ..Self::into_sink(sink) })
    }

    /// Takes samples for accesses of any source.
    pub fn into_sink(sink: AccessSink<'a>) -> Self {
        Self {
            sink,
            cpu_mhz: None,
            unknown_op: None,
            counts: SampleCounts::default(),
            events: Vec::new(),
            kinds: FxHashMap::default(),
            kind_age: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, sample: &PerfAccess<'_>) -> Result<(), ImportError> {
        let kind = match sample.alike {
            Some(alike) => self.kind_of_alike(alike, sample)?,
            None => self.kind_of(sample)?,
        };
        self.events[kind.event].1 += 1;
        let counts = &mut self.counts;
        let Some(timestamp_ns) = sample.time_ns else {
            counts.without_time += 1;
            return Ok(());
        };
        let Some(address) = sample.address.filter(|address| *address != 0) else {
            counts.without_address += 1;
            return Ok(());
        };
        let kind = match kind.access {
            Ok(kind) => kind,
            Err(no_access) => {
                *counts.of(no_access) += 1;
                return Ok(());
            }
        };
        counts.accesses += 1;
        // 0 stands for a latency that was not measured: of stores on most processors, of hits on AMD's.
        let cycles = sample.cycles.filter(|cycles| *cycles > 0);
        counts.latencies_in_cycles += u64::from(cycles.is_some() && self.cpu_mhz.is_none());
        self.sink.push_row(KindRow {
            timestamp_ns,
            address,
            size_bytes: 1,
            access_latency_ns: cycles.zip(self.cpu_mhz).map(|(cycles, mhz)| latency_ns(cycles, mhz)),
            cpu_id: sample.cpu.and_then(|cpu| cpu.try_into().ok()),
            thread_id: sample.thread,
            // Even one sample for each event is no access each: the event is a first touch, or a fraction of the loads. A period
            // of 1 would say that every access is there; 0 is unknown.
            period: if sample.period == 1 { 0 } else { sample.period },
            kind,
        })
    }

    #[inline]
    fn kind_of_alike(&mut self, alike: (u64, u64), sample: &PerfAccess<'_>) -> Result<SampleKind, ImportError> {
        match self.kinds.get(&alike) {
            Some(kind) if self.kind_age == self.sink.kind_age() => Ok(*kind),
            _ => self.meet(alike, sample),
        }
    }

    #[cold]
    fn meet(&mut self, alike: (u64, u64), sample: &PerfAccess<'_>) -> Result<SampleKind, ImportError> {
        let kind = self.kind_of(sample)?;
        if self.kind_age != self.sink.kind_age() || self.kinds.len() == KINDS_MAX {
            self.kinds.clear();
            self.kind_age = self.sink.kind_age();
        }
        self.kinds.insert(alike, kind);
        Ok(kind)
    }

    fn kind_of(&mut self, sample: &PerfAccess<'_>) -> Result<SampleKind, ImportError> {
        let op_type = match operation(sample).or(self.unknown_op.map(as_memory_op)) {
            Some(MemoryOp::Load) => Ok(OpType::Load),
            Some(MemoryOp::Store) => Ok(OpType::Store),
            Some(MemoryOp::Prefetch) => Err(NoAccess::Prefetch),
            Some(MemoryOp::Execute) => Err(NoAccess::InstructionFetch),
            None => Err(NoAccess::Unknown),
        };
        let access = match op_type {
            Ok(op_type) => Ok(self.sink.kind_of(&TraceRow {
                op_type,
                symbol: sample.symbol,
                dso: sample.dso,
                cache_level: sample.data_source.and_then(DataSource::answering_level),
                source: SOURCE,
                ..TraceRow::EMPTY
            })?),
            Err(no_access) => Err(no_access),
        };
        Ok(SampleKind { event: self.place_of_event(sample.event), access })
    }

    fn place_of_event(&mut self, event: &str) -> usize {
        let known = self.events.iter().position(|(name, _)| name == event);
        known.unwrap_or_else(|| {
            self.events.push((event.to_owned(), 0));
            self.events.len() - 1
        })
    }

    /// Completes the tables, and says what every import of perf says the same way.
    pub fn finish(self, request: &ImportRequest, recording: PerfRecording) -> Result<PerfRun, ImportError> {
        if self.counts.accesses == 0 {
            let file = request.files.first().cloned().unwrap_or_default();
            return Err(no_accesses(&file, &self.counts));
        }
        self.complete(recording)
    }

    /// Completes the tables, also without a single access.
    pub fn complete(self, recording: PerfRecording) -> Result<PerfRun, ImportError> {
        let accesses = self.sink.finish()?;
        let mut loss = self.counts.losses();
        loss.extend(accesses.loss.clone());
        let (events, samples) = (self.events.into_iter().collect(), self.counts.by_name());
        Ok(PerfRun { accesses, recording, cpu_mhz: self.cpu_mhz, events, samples, loss })
    }
}

/// Tables of a recording, and what is to be said about it.
pub(crate) struct PerfRun {
    pub accesses: Accesses,
    recording: PerfRecording,
    /// MHz by which cycles became nanoseconds; none if that was not asked for.
    cpu_mhz: Option<u64>,
    /// Samples of each event.
    events: BTreeMap<String, u64>,
    /// Samples that became accesses, and the others by reason.
    samples: BTreeMap<&'static str, u64>,
    pub loss: Vec<LossRow>,
}

impl PerfRun {
    pub fn imported(self, metadata: RunMetadata) -> Imported {
        let about = CollectorAbout { basis: Basis::Sampled.name().to_owned(), cost: "not known".to_owned() };
        let collectors = CollectorUse {
            used: vec![SOURCE.to_owned()],
            about: [(SOURCE.to_owned(), about)].into(),
            ..CollectorUse::default()
        };
        Imported {
            found: self.found(),
            summary: self.summary(),
            metadata: RunMetadata {
                collectors,
                import: Some(ImportOrigin { found: self.described(), ..ImportOrigin::default() }),
                tables: self.accesses.tables,
                build: Some(self.accesses.build),
                ..metadata
            },
            loss: self.loss,
            given: Some(self.accesses.given),
        }
    }

    /// What the metadata says besides what was found.
    fn described(&self) -> Map<String, Value> {
        let mut described = as_map(serde_json::to_value(&self.recording));
        described.extend(self.cpu_mhz.map(|mhz| ("cpu_mhz".to_owned(), mhz.into())));
        described
    }

    fn found(&self) -> Map<String, Value> {
        let mut found = as_map(serde_json::to_value(&self.accesses.counts));
        found.extend(serde_json::to_value(&self.samples).ok().map(|samples| ("samples".to_owned(), samples)));
        found.extend(serde_json::to_value(&self.events).ok().map(|events| ("events".to_owned(), events)));
        found
    }

    fn summary(&self) -> ImportSummary {
        use SummaryFigure::{Count, Seconds};
        let counts = &self.accesses.counts;
        let span_s = counts.first_ns.zip(counts.last_ns).map(|(first, last)| last.saturating_sub(first) as f64 / 1e9);
        let samples = self.events.values().sum();
        let skipped = samples - self.samples.get("accesses").copied().unwrap_or(0);
        let figures = vec![Count(samples), Seconds(span_s), Count(counts.rows)];
        let left_out = vec![(skipped, "samples"), (counts.dropped, "accesses without a label")];
        ImportSummary {
            lines: vec![
                ("read", SummaryText::Sentence("{} samples over {}; {} accesses", figures)),
                ("left out", SummaryText::Totals(left_out)),
            ],
            header: vec!["event", "samples"],
            rows: self.events.iter().map(|(event, samples)| (event.clone(), vec![*samples])).collect(),
        }
    }
}

fn as_map(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// What the data source says, or else the name of the event.
fn operation(sample: &PerfAccess<'_>) -> Option<MemoryOp> {
    let named = || match sample.event {
        event if event.contains("mem-stores") => Some(MemoryOp::Store),
        event if event.contains("mem-loads") => Some(MemoryOp::Load),
        _ => None,
    };
    sample.data_source.and_then(DataSource::op).or_else(named)
}

fn as_memory_op(op: OpType) -> MemoryOp {
    match op {
        OpType::Load => MemoryOp::Load,
        OpType::Store => MemoryOp::Store,
    }
}

/// Cycles at a clock, to the nearest nanosecond.
#[inline]
fn latency_ns(cycles: u64, mhz: u64) -> u32 {
    // Numbers of 128 bits take a processor twenty times as long to divide.
    if let Ok(cycles) = u32::try_from(cycles) {
        let ns = (u64::from(cycles) * 1000).saturating_add(mhz / 2) / mhz.max(1);
        return u32::try_from(ns).unwrap_or(u32::MAX);
    }
    let ns = (u128::from(cycles) * 1000 + u128::from(mhz) / 2) / u128::from(mhz.max(1));
    u32::try_from(ns).unwrap_or(u32::MAX)
}

impl SampleCounts {
    #[inline]
    fn of(&mut self, no_access: NoAccess) -> &mut u64 {
        match no_access {
            NoAccess::Prefetch => &mut self.prefetches,
            NoAccess::InstructionFetch => &mut self.instruction_fetches,
            NoAccess::Unknown => &mut self.without_op,
        }
    }

    fn skipped(&self) -> [(&'static str, u64); 5] {
        [
            ("without_time", self.without_time),
            ("without_address", self.without_address),
            ("without_operation", self.without_op),
            ("prefetches", self.prefetches),
            ("instruction_fetches", self.instruction_fetches),
        ]
    }

    fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let all = self.skipped().into_iter().chain([("accesses", self.accesses)]);
        all.filter(|(_, count)| *count > 0).collect()
    }

    fn losses(&self) -> Vec<LossRow> {
        let skipped: u64 = self.skipped().iter().map(|(_, count)| count).sum();
        let parts = self.skipped().into_iter().filter(|(_, count)| *count > 0);
        let detail: Vec<String> = parts.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
        let rows = [
            loss(LossKind::SkippedSamples, skipped, detail.join(", ")),
            loss(LossKind::LatenciesInCycles, self.latencies_in_cycles, "the weights of the samples".to_owned()),
        ];
        rows.into_iter().filter(|row| row.count > 0).collect()
    }
}

/// A row of what is missing.
pub(super) fn loss(kind: LossKind, count: u64, detail: String) -> LossRow {
    LossRow { kind, source: SOURCE, count, bytes: None, detail }
}

/// The one file of a recording, or the standard input for `-`.
pub(super) fn only_file(request: &ImportRequest) -> Result<&Path, ImportError> {
    match &request.files[..] {
        [file] => Ok(file),
        files => Err(ImportError::Refused {
            message: format!("importing a recording of perf takes one file, and {} were given", files.len()),
            hints: vec!["import each as a run of its own, and compare them with `dwell compare`".to_owned()],
        }),
    }
}

pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file of any size, or the standard input.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, ImportError> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(open_file(path)?))
}

pub(super) fn open_file(path: &Path) -> Result<File, ImportError> {
    let failed = |source| StoreError::from(FileError::from_io("opening a recording", path, source)).into();
    open_ordinary(path).map_err(failed)
}

/// A recording that could not be decoded at all.
pub(super) fn undecodable(path: &Path, error: &DecodeError, hints: Vec<String>) -> ImportError {
    ImportError::Refused { message: format!("reading {} failed: {error}", path.display()), hints }
}

fn no_accesses(path: &Path, counts: &SampleCounts) -> ImportError {
    let found: Vec<String> = counts
        .skipped()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} samples {}", name.replace('_', " ")))
        .collect();
    let found = if found.is_empty() { "no sample".to_owned() } else { found.join(", ") };
    let mut hints = vec!["record loads and stores with `perf mem record -- COMMAND`".to_owned()];
    if counts.without_op > 0 {
        hints.push(
            "if all samples are of one kind, say which with `--unknown-op load` or `--unknown-op store`".to_owned(),
        );
    }
    ImportError::Refused {
        message: format!("importing {} needs samples of loads or stores, and found {found}", path.display()),
        hints,
    }
}
