//! The `pages` collector: which pages a program wrote, and which of its mappings it accessed at all, interval by interval.
//!
//! What makes its numbers wrong or missing:
//! - What was written between the last scan of a program and its end is not seen: its memory is gone then.
//! - A page that was written many times in an interval counts once. Reads are known by mapping only.
//! - A program that becomes another one (`exec`) is attached to anew, and what it writes until then is missed.

mod agreement;
mod following;
mod rows;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dwell_events::engine::EngineEvent;
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_pages::{PagesError, WriteTracker};
use dwell_store::{RunDir, StoreError, TableWriter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::batches::each_batch;
use crate::region_names::RegionNames;
use crate::{
    BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Known, Wanted, Watching, read_settings,
};
use agreement::{ScannedCache, agreement_with_trace};
use following::Following;
use rows::{PageRow, TABLE, batch, named, page_rows};

const NAME: CollectorName = CollectorName::of("pages");
/// Looking for accesses walks all of a program's memory and empties its translation caches, so it is done more rarely than
/// looking for writes.
const LEAST_ACCESS_INTERVAL_MS: u64 = 1000;

/// Which pages a program wrote, and which of its mappings it accessed.
pub(crate) struct Pages;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Settings {
    /// Time between two scans for writes.
    write_interval_ms: u64,
    /// Time between two looks at accessed mappings.
    access_interval_ms: u64,
}

impl Settings {
    fn write_interval(&self) -> Duration {
        Duration::from_millis(self.write_interval_ms.max(1))
    }

    /// In scans for writes.
    fn scans_per_access_look(&self) -> u64 {
        (self.access_interval_ms / self.write_interval_ms.max(1)).max(1)
    }
}

impl Collector for Pages {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "which pages a program wrote and which of its mappings it accessed, in each interval",
            basis: Basis::Page,
            cost: "0.23 ms of CPU time in the observer for each scan of 1 GiB, and 85 ns for each page that was written; in the \
                   program 1 µs for the first write to a page after each scan",
            needs: "Linux 6.7 on x86-64; the right to trace the program: the same user, and no `kernel.yama.ptrace_scope` above 1",
            tried: "`/bin/cat` is started, attached to and scanned; it must have written pages and go on afterwards",
        }
    }

    fn check(&self, _: &CheckPlace<'_>) -> Outcome {
        let child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Outcome::fails(format!("starting /bin/cat failed with {error}")),
        };
        let outcome = answer_of(&mut child).and_then(|()| scan_once(child.id()));
        // At the end of its input it ends by itself, if it was not harmed.
        drop(child.stdin.take());
        match (child.wait(), outcome) {
            (Ok(status), Ok(found)) if status.success() => Outcome::works(found),
            (Ok(status), Ok(_)) => Outcome::fails(format!("/bin/cat was attached to and ended with {status}")),
            (Err(error), _) => Outcome::fails(format!("waiting for /bin/cat failed with {error}")),
            (_, Err(failed)) => failed,
        }
    }

    fn settings(&self, wanted: &Wanted<'_>) -> Value {
        let write_interval_ms = wanted.sample_interval_ms;
        json!(Settings { write_interval_ms, access_interval_ms: write_interval_ms.max(LEAST_ACCESS_INTERVAL_MS) })
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, settings: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let settings: Settings = read_settings(NAME, settings)?;
        let watches_worker = request.job.engine.is_embedded();
        Ok(Box::new(PagesWatch { watches_worker, following: Following::begin(run, settings)? }))
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
        if !record.request.collectors.has(NAME) {
            return Ok(());
        }
        let names = RegionNames::new(known.regions);
        let mut table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        let mut scans = ScannedCache::new(&names);
        let damaged = each_batch(&run.raw_stream(NAME.name()), |raw| {
            let rows = page_rows(&raw).into_iter();
            let rows: Vec<PageRow> = match known.has_one_process() {
                true => rows.flat_map(|row| named(row, &names)).collect(),
                false => rows.collect(),
            };
            table.write(&batch(&rows))?;
            rows.iter().for_each(|row| scans.note(row));
            Ok(())
        })?;
        let rows = table.finish()?;
        collected.tables.push(BuiltTable { table: Table::Own(&TABLE), rows, basis: Basis::Page, source: NAME });
        let detail = "batches of scans that are damaged or cut off";
        collected.lost(NAME, LossKind::UndecodableRecords, damaged, detail);
        if record.request.collectors.has(CollectorName::TENSOR_OPS) && known.has_one_process() {
            collected.agreements.extend(agreement_with_trace(run, scans)?);
        }
        Ok(())
    }

    fn own_tables(&self) -> &'static [Table] {
        static TABLES: [Table; 1] = [Table::Own(&TABLE)];
        &TABLES
    }
}

/// Waits until a program that repeats its input does: until then it is being loaded, and its memory is replaced.
fn answer_of(child: &mut Child) -> Result<(), Outcome> {
    let asked = child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"));
    asked
        .and_then(|()| child.stdout.as_mut().map_or(Ok(()), |output| output.read_exact(&mut [0])))
        .map_err(|error| Outcome::fails(format!("/bin/cat was asked for an answer, which failed with {error}")))
}

/// Attaches to a process and scans it.
fn scan_once(pid: u32) -> Result<String, Outcome> {
    let failed = |error: PagesError| match error.is_forbidden() {
        true => Outcome::fails(error.to_string()).remedy("sudo sysctl kernel.yama.ptrace_scope=1"),
        false => Outcome::fails(error.to_string()),
    };
    let mut tracker = WriteTracker::attach(pid).map_err(failed)?;
    let mut bytes = 0;
    tracker.scan(|written| bytes += written.range.end - written.range.start).map_err(failed)?;
    match bytes {
        0 => Err(Outcome::fails("/bin/cat was scanned, and no page of it was written")),
        _ => Ok(format!("/bin/cat was attached to, and {} KiB of it were written", bytes >> 10)),
    }
}

/// Scans of a run on their way into `raw/`.
struct PagesWatch {
    /// Whether the worker itself runs the model.
    watches_worker: bool,
    following: Following,
}

impl Watching for PagesWatch {
    fn worker_started(&mut self, pid: u32) -> Result<(), CollectError> {
        if self.watches_worker {
            self.following.follow(pid);
        }
        Ok(())
    }

    fn engine_event(&mut self, event: &EngineEvent) {
        if let EngineEvent::ProcessFound { pid, .. } = event {
            self.following.follow(*pid);
        }
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.following.look()?;
        Ok(false)
    }

    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.following.end()
    }
}
