//! The `page_faults` collector: each page fault of a program, with its address, as the kernel samples it.
//!
//! A fault is the first touch of a page, or its first write after a fork: it is no access each, so its rows are in a table of
//! their own and never in `trace`.
//!
//! What makes its numbers wrong or missing:
//! - One fault may bring many pages: a huge page, or the neighbours of a page of a file that are in memory already.
//! - An ordinary user does not see faults that the kernel takes for a program, such as in `read` into fresh memory.
//! - A ring that is full: what it had no room for is counted.

mod rows;

use std::sync::Arc;

use dwell_decode::code::SampledCode;
use dwell_decode::perf_data::{CpuMode, Place, Record, Recording, Sample};
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_files::object_bytes;
use dwell_host::perf_event_refusal;
use dwell_metadata::{RunRecord, RunRequest};
use dwell_perf::{Attributes, SampledEvent, flags, kinds, sampled, software};
use dwell_store::{RunDir, StoreError, TableWriter};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::perf::{PerfRecords, PerfSetup, PerfWatch, Programs, recording_losses, samples_of};
use crate::region_names::RegionNames;
use crate::{
    BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Known, Wanted, Watching, read_settings,
};
use rows::{FaultRow, TABLE, batch};

const NAME: CollectorName = CollectorName::of("page_faults");
/// Rows that are gathered before they are written.
const ROWS_PER_BATCH: usize = 32 * 1024;
/// Bytes of the largest ring. An ordinary user may lock 516 KiB for each processor by default, and gets a smaller one.
const MOST_RING_BYTES: usize = 2 << 20;
/// Memory that is mapped to find out whether it works: so much that no allocator has it lying about. It is touched once in each of
/// these steps, in fresh pages.
const TRIED_BYTES: usize = 64 << 20;
const TRIED_STEP_BYTES: usize = 2 << 20;

/// Each page fault of a program.
pub(crate) struct PageFaults;

#[derive(Clone, Serialize, Deserialize)]
struct Settings {
    /// dwell's own program, which is no part of a run of another one.
    own_program: Option<String>,
}

fn faults() -> SampledEvent {
    const SAMPLES: u64 =
        sampled::IDENTIFIER | sampled::IP | sampled::TID | sampled::TIME | sampled::ADDR | sampled::CPU;
    let attributes = Attributes {
        kind: kinds::SOFTWARE,
        config: software::PAGE_FAULTS,
        period: 1,
        sample_type: SAMPLES,
        flags: flags::INHERIT | flags::PROCESSES,
        counts_lost: true,
        ..Attributes::default()
    };
    SampledEvent { name: "page-faults".to_owned(), leader: None, attributes, cpus: None }
}

impl Collector for PageFaults {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "each page fault of a program: the first touch of a page, with address, thread and function",
            basis: Basis::Exact,
            cost: "0.7 µs for each page fault in the program, which takes 1.4 µs without; 0.05 µs of CPU time in the observer",
            needs: "`kernel.perf_event_paranoid` of at most 2 for programs of the same user; at most 1, or root, to see faults \
                    that the kernel takes for a program",
            tried: "page faults of dwell itself are sampled while it touches new pages",
        }
    }

    fn check(&self, place: &CheckPlace<'_>) -> Outcome {
        let mut touched = 0..0;
        let samples = samples_of(&[faults()], || {
            let mut memory = vec![0_u8; TRIED_BYTES];
            memory.iter_mut().step_by(TRIED_STEP_BYTES).for_each(|byte| *std::hint::black_box(byte) = 1);
            let begin = memory.as_ptr().addr() as u64;
            touched = begin..begin + memory.len() as u64;
        });
        match samples {
            Ok(samples) => {
                let is_of_them = |sample: &&Sample| sample.address().is_some_and(|address| touched.contains(&address));
                match samples.iter().filter(is_of_them).count() {
                    0 => Outcome::fails("new pages were touched, and no fault of them was sampled"),
                    count => {
                        let pages = TRIED_BYTES / TRIED_STEP_BYTES;
                        Outcome::works(format!("{pages} new pages touched, {count} faults of them sampled"))
                    }
                }
            }
            Err(error) => perf_event_refusal(&place.root, &error),
        }
    }

    fn settings(&self, _: &Wanted<'_>) -> Value {
        let own_program = std::env::current_exe().ok().map(|path| path.display().to_string());
        json!(Settings { own_program })
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, _: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let setup = PerfSetup {
            name: NAME,
            events: vec![faults()],
            of_the_kernel: Some(
                "faults that the kernel takes for a program, such as in read(), which kernel.perf_event_paranoid hides from \
                 this user",
            ),
            most_ring_bytes: MOST_RING_BYTES,
        };
        Ok(Box::new(PerfWatch::begin(run, request, setup)?))
    }

    fn build(&self, _: &RunDir, _: &RunRecord, _: &mut Collected) -> Result<(), StoreError> {
        Ok(())
    }

    fn build_named(
        &self,
        run: &RunDir,
        record: &RunRecord,
        known: &Known<'_>,
        collected: &mut Collected,
    ) -> Result<(), StoreError> {
        let Some(settings) = record.request.collectors.settings(NAME) else { return Ok(()) };
        let settings: Option<Settings> = read_settings(NAME, settings).ok();
        let own_program = settings.and_then(|settings| settings.own_program);
        let own_program = own_program.filter(|_| !record.request.job.engine.is_embedded());
        let table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        let mut faults = Faults {
            code: SampledCode::new(object_bytes),
            programs: Programs::other_than(own_program),
            known,
            names: RegionNames::new(known.regions),
            texts: FxHashMap::default(),
            rows: Vec::new(),
            table,
            cut_off: 0,
        };
        if let Some(mut records) = PerfRecords::open(&run.raw_stream(NAME.name()))? {
            let cut = loop {
                match records.data.next_record() {
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                    Ok(Some(&Record::Sample(sample))) => faults.push(&sample, records.data.recording())?,
                    Ok(Some(other)) => faults.take(other),
                }
            };
            collected.losses.extend(recording_losses(NAME.name(), records.data.recording(), cut.as_ref()));
            let detail = "batches of records that are damaged or cut off";
            collected.lost(NAME, LossKind::UndecodableRecords, records.damaged(), detail);
        }
        collected.lost(NAME, LossKind::UndecodableRecords, faults.cut_off, "samples without one of their fields");
        let rows = faults.finish()?;
        collected.tables.push(BuiltTable { table: Table::Own(&TABLE), rows, basis: Basis::Exact, source: NAME });
        Ok(())
    }

    fn own_tables(&self) -> &'static [Table] {
        static TABLES: [Table; 1] = [Table::Own(&TABLE)];
        &TABLES
    }
}

/// Faults of a recording on their way into the table.
struct Faults<'a, L> {
    code: SampledCode<L>,
    programs: Programs,
    known: &'a Known<'a>,
    names: RegionNames,
    /// Texts of rows: a recording has few.
    texts: FxHashMap<String, Arc<str>>,
    rows: Vec<FaultRow>,
    table: TableWriter,
    cut_off: u64,
}

impl<L: FnMut(&str) -> Option<Vec<u8>>> Faults<'_, L> {
    fn take(&mut self, record: &Record) {
        self.code.take(record);
        self.programs.take(record);
    }

    fn push(&mut self, sample: &Sample, recording: &Recording) -> Result<(), StoreError> {
        let fields = (sample.time_ns(), sample.process(), sample.cpu(), sample.address());
        let (Some(timestamp_ns), Some(process), Some(cpu), Some(address)) = fields else {
            self.cut_off += 1;
            return Ok(());
        };
        if !self.programs.has(process.pid) {
            return Ok(());
        }
        let code = self.code.of(sample, recording);
        let place = self.code.spaces().find(process.pid, address);
        let (mapping, file_offset) = self.mapping(place);
        let in_trace = self.address_in_trace(process.pid, address);
        let name = in_trace.and_then(|address| self.names.at(address, timestamp_ns));
        self.rows.push(FaultRow {
            timestamp_ns,
            pid: process.pid,
            thread: process.tid,
            cpu,
            address,
            is_of_kernel: sample.mode() == CpuMode::Kernel,
            region_type: name.map(|name| name.region_type),
            tensor: name.and_then(|name| name.tensor.clone()),
            symbol: text(&mut self.texts, self.code.symbol(code)),
            dso: text(&mut self.texts, self.code.dso(code)),
            mapping,
            file_offset,
        });
        if self.rows.len() >= ROWS_PER_BATCH { self.write() } else { Ok(()) }
    }

    /// The name of a mapping and the place in its file. Memory without a file has brackets around its name, or slashes before it.
    fn mapping(&mut self, place: Option<Place>) -> (Arc<str>, Option<u64>) {
        let name = place.map_or("", |place| self.code.spaces().name(place.file));
        match name {
            "//anon" => (text(&mut self.texts, ""), None),
            name => {
                let has_file = name.starts_with('/');
                (text(&mut self.texts, name), place.map(|place| place.file_offset).filter(|_| has_file))
            }
        }
    }

    /// The address as the trace states it: with the number of the process in its upper bits. None of a process that the trace does
    /// not know; the embedded engine is the only process of its run.
    fn address_in_trace(&self, pid: u32, address: u64) -> Option<u64> {
        if self.known.processes.is_empty() {
            return Some(address);
        }
        let process = self.known.processes.iter().find(|process| process.pid == pid)?;
        Some(address | u64::from(process.process) << 56)
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.table.write(&batch(&self.rows))?;
        self.rows.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<u64, StoreError> {
        self.write()?;
        self.table.finish()
    }
}

fn text(texts: &mut FxHashMap<String, Arc<str>>, text: &str) -> Arc<str> {
    if let Some(known) = texts.get(text) {
        return known.clone();
    }
    texts.entry(text.to_owned()).or_insert_with(|| text.into()).clone()
}
