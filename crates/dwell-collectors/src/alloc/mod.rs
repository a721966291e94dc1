//! The `alloc` collector: what programs allocate and give back, call by call.
//!
//! ```text
//! program + libdwell_alloc.so ──▶ ring per process ──▶ rings ──▶ raw/alloc.arrows ──▶ lives ──▶ allocation_lives
//! /proc/<pid>/pagemap ──▶ anonymous ──▶ raw/alloc_anonymous.arrows ──▶ agreement ─▲
//! ```
//!
//! What makes its numbers wrong or missing:
//! - Programs without a dynamic C library, setuid programs and those that drop `LD_PRELOAD` are not seen.
//! - Of an allocator that is linked into a program, only the mappings that it makes by calling `mmap` are seen.
//! - What the C library and the loader map for themselves is not seen: thread stacks, arenas, libraries.
//! - If the ring is full, calls are not recorded and are counted.

mod agreement;
mod anonymous;
mod lives;
mod naming;
mod ranges;
mod rings;
mod rows;
mod sampled;
mod streams;
mod trial;
mod unseen;

use std::collections::BTreeSet;
use std::path::PathBuf;

use dwell_analysis::memory::MemoryKind;
use dwell_events::engine::EngineEvent;
use dwell_events::host::Outcome;
use dwell_events::schema::Table;
use dwell_events::server::ALLOCATION_LIBRARY_VARIABLE;
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_host::library_for_programs;
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_ring::allocations::ALLOCATION_DIR_VARIABLE;
use dwell_store::{RunDir, StoreError, TableWriter};
use serde_json::{Value, json};

use crate::batches::each_batch;
use crate::{BuiltTable, CheckPlace, CollectError, Collected, Collector, Description, Known, Target, Wanted, Watching};
use agreement::Accounting;
use anonymous::AnonymousLooks;
use lives::{End, Life, Lives, Totals};
use naming::KnownTensors;
use rings::Rings;
use rows::{LifeRow, TABLE, batch};
use sampled::SampledGrowth;
use streams::{ANONYMOUS, AnonymousRow, CALLS, IMAGES, ImageRow};
use unseen::Processes;

const NAME: CollectorName = CollectorName::of("alloc");
/// The recorder of allocations.
const LIBRARY: &str = "libdwell_alloc.so";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Rows of a batch of the table.
const BATCH_ROWS: usize = 1 << 16;

/// What programs allocate and give back.
pub(crate) struct Alloc;

fn library() -> Option<PathBuf> {
    library_for_programs(ALLOCATION_LIBRARY_VARIABLE, LIBRARY)
}

impl Collector for Alloc {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "every call of the malloc and mmap families, with its time, thread, address and size",
            basis: Basis::Exact,
            cost: "40 to 100 ns for each pair of malloc and free in the program",
            needs: "Linux 4.14; a program that dwell starts and that has a dynamic C library; 32 MiB of disk for each process \
                    while it runs",
            tried: "`libdwell_alloc.so` is loaded into `/bin/cat`, whose allocations have to come back",
        }
    }

    fn check(&self, _: &CheckPlace<'_>) -> Outcome {
        match library() {
            Some(library) => trial::try_with_cat(&library),
            None => Outcome::absent(format!("{LIBRARY} is neither beside the program dwell nor in ../lib/dwell"))
                .remedy("put it there; `cargo build --release -p dwell-alloc` makes it, and a wheel of dwell has it"),
        }
    }

    fn cannot_watch(&self, target: &Target<'_>) -> Option<String> {
        let name = target.engine.name();
        if target.is_joined {
            return Some(format!("the recorder is loaded when {name} starts, and this one runs already"));
        }
        target.engine.profile().is_in_browser.then(|| "a browser does not load it into its processes".to_owned())
    }

    fn settings(&self, _: &Wanted<'_>) -> Value {
        json!({})
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, _: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let library = library().ok_or(CollectError::NoLibrary { library: LIBRARY })?;
        let dir = crate::rings::allocations_dir(run);
        std::fs::create_dir(&dir)
            .map_err(|error| StoreError::from_io("making the folder of rings of allocations", &dir, error))?;
        let is_embedded = request.job.engine.is_embedded();
        Ok(Box::new(AllocWatch {
            // Absolute, because programs may work in another folder.
            dir: std::path::absolute(&dir).unwrap_or(dir),
            library,
            is_embedded,
            rings: Rings::begin(run, other_than_own(is_embedded))?,
            anonymous: AnonymousLooks::begin(run)?,
            processes: Processes::new(),
        }))
    }

    fn salvage(&self, run: &RunDir) -> Result<(), CollectError> {
        let dir = crate::rings::allocations_dir(run);
        // Without a ring nothing was left, or nothing was watched.
        if !crate::rings::in_dir(&dir).is_empty() {
            Rings::resume(run, other_than_own(false))?.finish()?;
        }
        crate::rings::remove_folder(&dir);
        Ok(())
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
        let mut images: Vec<ImageRow> = Vec::new();
        let mut damaged = each_batch(&streams::path(run, IMAGES), |batch| {
            images.extend(streams::image_rows(&batch));
            Ok(())
        })?;
        let mut looks: Vec<AnonymousRow> = Vec::new();
        damaged += each_batch(&streams::path(run, ANONYMOUS), |batch| {
            looks.extend(streams::anonymous_rows(&batch));
            Ok(())
        })?;
        let table = TableWriter::create_with(run.path(), Table::Own(&TABLE), record.request.build.compression)?;
        // Addresses of several processes tell no tensor.
        let regions = if known.has_one_process() { known.regions } else { &[] };
        let mut writer = LifeWriter { table, rows: Vec::new(), tensors: KnownTensors::new(regions), failed: None };
        let (mut lives, mut accounting) = (Lives::new(&images), Accounting::new(&images, &looks));
        let mut sampled = SampledGrowth::new(collected.samples.engine.of(MemoryKind::Anon));
        damaged += each_batch(&streams::path(run, CALLS), |batch| {
            for row in streams::call_rows(&batch) {
                accounting.look_before(row.event.time_ns, &lives);
                sampled.look_before(row.event.time_ns, &lives);
                lives.take_in(&row, &mut |pid, life, end| writer.push(pid, life, end));
            }
            writer.outcome()
        })?;
        accounting.look_before(u64::MAX, &lives);
        sampled.look_before(u64::MAX, &lives);
        let totals = lives.finish(&mut |pid, life, end| writer.push(pid, life, end));
        let rows = writer.finish(&totals)?;
        collected.tables.push(BuiltTable { table: Table::Own(&TABLE), rows, basis: Basis::Exact, source: NAME });
        collected.agreements.extend(accounting.agreement().or_else(|| sampled.agreement()));
        collected.lost(NAME, LossKind::UndecodableRecords, damaged, "batches of calls that are damaged or cut off");
        tell_losses(&images, collected);
        Ok(())
    }

    fn own_tables(&self) -> &'static [Table] {
        static TABLES: [Table; 1] = [Table::Own(&TABLE)];
        &TABLES
    }
}

/// The program whose processes are left out: dwell's own, unless it runs the model.
fn other_than_own(is_embedded: bool) -> Option<PathBuf> {
    if is_embedded { None } else { std::env::current_exe().ok() }
}

/// The last row of an image says what was lost of it.
fn tell_losses(images: &[ImageRow], collected: &mut Collected) {
    let last: std::collections::BTreeMap<u32, &ImageRow> = images.iter().map(|row| (row.image, row)).collect();
    for ImageRow { process, lost: (overflowed, untimely), .. } in last.into_values() {
        let detail = format!("calls of process {} for which its ring had no room", process.pid);
        collected.lost(NAME, LossKind::LostAllocations, *overflowed, &detail);
        let detail = format!("calls of process {} before it had a ring, or in a signal handler", process.pid);
        collected.lost(NAME, LossKind::LostAllocations, *untimely, &detail);
    }
}

/// Writes lives as they end.
struct LifeWriter<'a> {
    table: TableWriter,
    rows: Vec<LifeRow>,
    tensors: KnownTensors<'a>,
    failed: Option<StoreError>,
}

impl LifeWriter<'_> {
    fn push(&mut self, pid: u32, life: Life, end: Option<End>) {
        let (region_type, tensor) = self.tensors.name(&life, end.as_ref());
        self.rows.push(LifeRow { pid, life, end, region_type, tensor });
        if self.rows.len() == BATCH_ROWS {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.table.write(&batch(&self.rows)).err();
        }
        self.rows.clear();
    }

    fn outcome(&mut self) -> Result<(), StoreError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn finish(mut self, totals: &Totals) -> Result<u64, StoreError> {
        self.write();
        self.outcome()?;
        for (name, value) in totals.named() {
            self.table.note(name, &value.to_string());
        }
        self.table.finish()
    }
}

/// Rings of a run on their way into `raw/`.
struct AllocWatch {
    dir: PathBuf,
    library: PathBuf,
    /// Whether the worker itself runs the model.
    is_embedded: bool,
    rings: Rings,
    anonymous: AnonymousLooks,
    processes: Processes,
}

impl Watching for AllocWatch {
    fn worker_environment(&self) -> Vec<(&'static str, String)> {
        let library = self.library.display().to_string();
        let others = std::env::var(PRELOAD_VARIABLE).ok().filter(|others| !others.is_empty());
        // The worker passes it on to the programs that it starts, and is left alone itself.
        let loaded = match self.is_embedded {
            true => (PRELOAD_VARIABLE, others.map_or(library.clone(), |others| format!("{library}:{others}"))),
            false => (ALLOCATION_LIBRARY_VARIABLE, library),
        };
        vec![loaded, (ALLOCATION_DIR_VARIABLE, self.dir.display().to_string())]
    }

    fn worker_started(&mut self, pid: u32) -> Result<(), CollectError> {
        if self.is_embedded {
            self.processes.add_root(pid);
        }
        Ok(())
    }

    fn engine_event(&mut self, event: &EngineEvent) {
        match event {
            EngineEvent::ProcessFound { pid, .. } => self.processes.add_root(*pid),
            EngineEvent::PhaseBegins { .. } => self.anonymous.look_soon(),
            _ => {}
        }
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.rings.drain()?;
        self.anonymous.look_if_due(&self.rings.running())?;
        self.processes.look();
        Ok(false)
    }

    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        let recorded: BTreeSet<u32> = self.rings.pids().collect();
        let mut end = self.rings.finish().map_err(|error| match error {
            CollectError::Store(error) => error,
            error => StoreError::from_io(
                "emptying rings of allocations",
                &self.dir,
                std::io::Error::other(error.to_string()),
            ),
        })?;
        self.anonymous.finish()?;
        for reason in self.processes.unseen(&recorded) {
            end.lost(LossKind::LostAllocations, 1, reason);
        }
        Ok(end)
    }
}
