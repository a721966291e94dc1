//! Captures of memray: what a Python process allocated.
//!
//! An allocation is no access, so such a run has no `trace` and no metrics. Calls have no times: each row says which samples
//! of the memory it lies between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::memray::{AllocationSite, AllocatorCall, CaptureRecord, Heap, MemorySample, MemrayCapture};
use dwell_events::schema::loss::LossRow;
use dwell_events::{Basis, LossKind};
use dwell_metadata::{
    AllocatorTotals, CollectorAbout, CollectorUse, MemrayCaptureOrigin, MemrayImport, RunMetadata, Timestamps,
};
use dwell_store::{RunDir, StoreError, utc_text};
use serde_json::{Map, Value};

use super::memray_tables::AllocationTables;
use super::{ImportError, ImportOption, ImportRequest, ImportSummary, Imported, Importer, SummaryFigure, SummaryText};
use crate::import::perf;

const SOURCE: &str = "memray";

/// Captures of memray.
pub(super) struct Memray;

impl Importer for Memray {
    fn name(&self) -> &'static str {
        SOURCE
    }

    fn about(&self) -> &'static str {
        "Captures of memray: allocations of a Python program with their stacks; no accesses"
    }

    fn files_help(&self) -> &'static str {
        "Files that `memray run` wrote, compressed or not. Several are processes of one program, as `--follow-fork` records \
         them"
    }

    fn options(&self) -> &'static [ImportOption] {
        &[]
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let mut tables = AllocationTables::create(run)?;
        let (mut found, mut loss) = (MemrayImport::default(), Vec::new());
        for path in &request.files {
            let reading = CaptureReading::of_file(path, &mut tables)?;
            loss.extend(reading.losses());
            for (name, totals) in &reading.allocators {
                let sum: &mut AllocatorTotals = found.allocators.entry((*name).to_owned()).or_default();
                sum.calls += totals.calls;
                sum.bytes = sum.bytes.saturating_add(totals.bytes);
            }
            found.captures.push(reading.origin(path));
        }
        found.libraries = tables.libraries();
        let tables = tables.finish(SOURCE)?;
        let start_unix_ms = found.captures.iter().map(|capture| capture.start_unix_ms).min();
        let start_unix_s = start_unix_ms.and_then(|start| u64::try_from(start / 1000).ok());
        Ok(Imported {
            metadata: RunMetadata {
                started_at_utc: start_unix_s.map_or(String::new(), utc_text),
                timestamps: Some(Timestamps::ordinal("calls")),
                collectors: collectors(),
                tables,
                ..RunMetadata::default()
            },
            loss,
            given: None,
            summary: summary(&found),
            found: as_map(&found),
        })
    }
}

fn collectors() -> CollectorUse {
    let about = CollectorAbout { basis: Basis::Exact.name().to_owned(), cost: "not known".to_owned() };
    CollectorUse {
        used: vec![SOURCE.to_owned()],
        about: [(SOURCE.to_owned(), about)].into(),
        ..CollectorUse::default()
    }
}

fn as_map(found: &MemrayImport) -> Map<String, Value> {
    match serde_json::to_value(found) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// One capture, read.
struct CaptureReading {
    capture: MemrayCapture<File>,
    /// Why it ends too early.
    cut: Option<DecodeError>,
    heap: Heap,
    allocators: BTreeMap<&'static str, AllocatorTotals>,
    threads: BTreeSet<u64>,
    allocated_bytes: u64,
    frees_of_unknown: u64,
    /// Bytes at the peak and at the end, where only sums were recorded.
    sums: (u64, u64),
    sampled_ms: Option<(i64, i64)>,
    peak_rss_bytes: Option<u64>,
}

impl CaptureReading {
    fn of_file(path: &Path, tables: &mut AllocationTables) -> Result<Self, ImportError> {
        let refused = |error: DecodeError| refused(path, error);
        let capture = MemrayCapture::open(perf::open_file(path)?).map_err(refused)?;
        tables.begin_capture(&capture);
        let mut reading = Self {
            capture,
            cut: None,
            heap: Heap::default(),
            allocators: BTreeMap::new(),
            threads: BTreeSet::new(),
            allocated_bytes: 0,
            frees_of_unknown: 0,
            sums: (0, 0),
            sampled_ms: None,
            peak_rss_bytes: None,
        };
        loop {
            match reading.capture.next_record() {
                Ok(None) => return Ok(reading),
                Ok(Some(record)) => reading.take(record, tables)?,
                // What came before is good: the process was killed, or the file was cut.
                Err(error) if error.is_truncation() => {
                    reading.cut = Some(error);
                    return Ok(reading);
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }

    fn take(&mut self, record: CaptureRecord, tables: &mut AllocationTables) -> Result<(), StoreError> {
        match record {
            CaptureRecord::Call(call) => {
                let freed_bytes = self.count_call(&call);
                tables.push_call(&self.capture, &call, freed_bytes)
            }
            CaptureRecord::Memory(sample) => {
                self.count_sample(&sample);
                tables.push_sample(&sample, &self.heap)
            }
            CaptureRecord::Site(site) => {
                self.count_site(&site);
                tables.push_site(&self.capture, &site)
            }
            CaptureRecord::Stack(stack) => tables.push_stack(&self.capture, stack),
            CaptureRecord::NativeFrame(frame) => tables.push_native_frame(&self.capture, &frame),
        }
    }

    fn count_call(&mut self, call: &AllocatorCall) -> Option<u64> {
        let freed_bytes = self.heap.take(call);
        let is_free = call.allocator.is_free();
        let bytes = if is_free { freed_bytes } else { call.size_bytes }.unwrap_or(0);
        let totals = self.allocators.entry(call.allocator.name()).or_default();
        totals.calls += 1;
        totals.bytes = totals.bytes.saturating_add(bytes);
        self.frees_of_unknown += u64::from(is_free && freed_bytes.is_none());
        if !is_free {
            self.allocated_bytes = self.allocated_bytes.saturating_add(bytes);
        }
        self.threads.insert(call.thread_id);
        freed_bytes
    }

    fn count_sample(&mut self, sample: &MemorySample) {
        let (first, last) = self.sampled_ms.unwrap_or((sample.unix_ms, sample.unix_ms));
        self.sampled_ms = Some((first.min(sample.unix_ms), last.max(sample.unix_ms)));
        self.peak_rss_bytes = self.peak_rss_bytes.max(Some(sample.rss_bytes));
    }

    fn count_site(&mut self, site: &AllocationSite) {
        let totals = self.allocators.entry(site.allocator.name()).or_default();
        totals.calls = totals.calls.saturating_add(site.peak_allocations);
        totals.bytes = totals.bytes.saturating_add(site.peak_bytes);
        self.sums = (self.sums.0.saturating_add(site.peak_bytes), self.sums.1.saturating_add(site.leaked_bytes));
        self.threads.insert(site.thread_id);
    }

    fn calls(&self) -> u64 {
        self.capture.counts().allocations + self.capture.counts().frees
    }

    fn has_sums(&self) -> bool {
        self.capture.counts().sites > 0
    }

    /// Calls that memray says it wrote and that are not here. One that was killed does not say.
    fn missing_calls(&self) -> u64 {
        self.capture.header().stated_calls.saturating_sub(self.calls())
    }

    fn losses(&self) -> Vec<LossRow> {
        let row = |kind, count, detail| LossRow { kind, source: SOURCE, count, bytes: None, detail };
        let pid = self.capture.header().pid;
        let mut rows = Vec::new();
        if let Some(cut) = &self.cut {
            let detail = format!("{cut}: process {pid} was killed, or its capture was cut");
            rows.push(row(LossKind::UndecodableRecords, self.missing_calls().max(1), detail));
        } else if self.missing_calls() > 0 {
            let detail = format!("calls of process {pid} that the header counts and that are not there");
            rows.push(row(LossKind::UndecodableRecords, self.missing_calls(), detail));
        }
        if self.heap.not_followed() > 0 {
            let detail = format!("allocations of process {pid}");
            rows.push(row(LossKind::UnfollowedAllocations, self.heap.not_followed(), detail));
        }
        rows
    }

    fn origin(&self, path: &Path) -> MemrayCaptureOrigin {
        let (header, counts) = (self.capture.header(), self.capture.counts());
        let sums = self.has_sums().then_some(self.sums);
        MemrayCaptureOrigin {
            file: path.to_owned(),
            format_version: header.version,
            form: header.form.name().to_owned(),
            is_whole: self.cut.is_none(),
            pid: header.pid,
            python_version: header.python_version_text(),
            python_allocator: header.python_allocator.name().to_owned(),
            has_python_allocations: header.has_python_allocations,
            has_native_stacks: header.has_native_stacks,
            command_line: header.command_line.clone(),
            start_unix_ms: header.start_unix_ms,
            main_thread_id: header.main_thread_id,
            frames_of_memray: header.frames_of_memray,
            bytes: self.capture.bytes(),
            allocations: counts.allocations,
            allocated_bytes: self.allocated_bytes,
            frees: counts.frees,
            frees_of_unknown: self.frees_of_unknown,
            peak_bytes: sums.map(|sums| sums.0).or(self.heap.peak_bytes()),
            left_bytes: sums.map(|sums| sums.1).or(self.heap.bytes()),
            threads: self.threads.len() as u64,
            stacks: counts.stacks,
            native_frames: counts.native_frames,
            sites: counts.sites,
            objects: counts.objects,
            samples: counts.memory_samples,
            sampled_ms: self.sampled_ms.map_or(0, |(first, last)| last.abs_diff(first)),
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }
}

fn refused(path: &Path, error: DecodeError) -> ImportError {
    let hints = match error.reason {
        DecodeReason::Read(source) => return StoreError::from_io("reading a capture of memray", path, source).into(),
        DecodeReason::Unsupported(_) => vec!["record again with memray 1.20: `pip install memray==1.20.0`".to_owned()],
        _ if error.offset == 0 => vec!["record with `memray run -o FILE PROGRAM.py`".to_owned()],
        _ => Vec::new(),
    };
    perf::undecodable(path, &error, hints)
}

fn summary(found: &MemrayImport) -> ImportSummary {
    use SummaryFigure::{Bytes, Count, Seconds};
    let sum = |value: fn(&MemrayCaptureOrigin) -> u64| found.captures.iter().map(value).fold(0, u64::saturating_add);
    let most = |value: fn(&MemrayCaptureOrigin) -> Option<u64>| found.captures.iter().filter_map(value).max();
    let read = vec![
        Count(sum(|capture| capture.allocations)),
        Bytes(Some(sum(|capture| capture.allocated_bytes))),
        Count(sum(|capture| capture.frees)),
        Count(found.captures.len() as u64),
    ];
    let peak = vec![Bytes(most(|capture| capture.peak_bytes)), Bytes(most(|capture| capture.peak_rss_bytes))];
    let longest_s = found.captures.iter().map(|capture| capture.sampled_ms).max().map(|ms| ms as f64 / 1000.0);
    let times = vec![Count(sum(|capture| capture.samples)), Seconds(longest_s)];
    ImportSummary {
        lines: vec![
            ("read", SummaryText::Sentence("{} allocations of {}, {} frees; processes: {}", read)),
            ("peak", SummaryText::Sentence("{} allocated at a time in one process, {} resident", peak)),
            (
                "times",
                SummaryText::Sentence("of {} samples of the memory, over {}; allocations only have an order", times),
            ),
            ("accesses", SummaryText::Sentence("none: nothing is known of reads, writes or retention", Vec::new())),
        ],
        header: vec!["allocator", "calls", "bytes"],
        rows: found.allocators.iter().map(|(name, totals)| (name.clone(), vec![totals.calls, totals.bytes])).collect(),
    }
}
