//! The tables of a run that was made from recorded allocations, written as their rows come.
//!
//! Memory is bounded by one batch and one row group of each table, and by what names the functions of native code.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use dwell_decode::memray::{
    AllocationSite, AllocatorCall, CaptureForm, Heap, MemorySample, MemrayCapture, NativeFrame, StackId,
};
use dwell_decode::symbols::{SymbolTable, demangled};
use dwell_events::Basis;
use dwell_events::schema::Table;
use dwell_events::schema::allocation_samples::{self, AllocationSampleRow};
use dwell_events::schema::allocation_sites::{self, AllocationSiteRow};
use dwell_events::schema::allocation_stacks::{self, AllocationStackRow};
use dwell_events::schema::allocations::{AllocationRow, AllocationsBuilder};
use dwell_files::object_bytes;
use dwell_metadata::TableOrigin;
use dwell_store::{RunDir, StoreError, TableWriter};
use std::io::Read;

/// Rows that are gathered before they are written.
const ROWS_PER_BATCH: usize = 32 * 1024;
/// Libraries whose symbols are kept; native frames of further ones have no names.
const MAX_SYMBOL_TABLES: usize = 1024;

/// A table of rows that are gathered and written in batches.
struct Rows<Row> {
    writer: TableWriter,
    rows: Vec<Row>,
    batch: fn(&[Row]) -> RecordBatch,
}

impl<Row> Rows<Row> {
    fn create(run: &RunDir, table: Table, batch: fn(&[Row]) -> RecordBatch) -> Result<Self, StoreError> {
        Ok(Self { writer: TableWriter::create(run.path(), table)?, rows: Vec::new(), batch })
    }

    fn push(&mut self, row: Row) -> Result<(), StoreError> {
        self.rows.push(row);
        if self.rows.len() >= ROWS_PER_BATCH {
            self.writer.write(&(self.batch)(&self.rows))?;
            self.rows.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, StoreError> {
        self.writer.write(&(self.batch)(&self.rows))?;
        self.writer.finish()
    }
}

/// The capture whose rows are being written.
#[derive(Clone, Copy, Default)]
struct Process {
    pid: u32,
    /// Numbers of stacks begin here, so that those of several captures differ.
    first_stack: u64,
    /// Last sample, if there was one.
    sample: Option<u64>,
    has_calls: bool,
}

impl Process {
    /// Stacks of Python have even numbers and native ones odd ones, as both come in one table and are numbered apart.
    fn python(self, stack: StackId) -> u64 {
        self.first_stack + 2 * u64::from(stack)
    }

    fn native(self, frame: u64) -> u64 {
        self.first_stack + 2 * frame + 1
    }
}

/// The tables on their way.
pub(super) struct AllocationTables {
    calls: TableWriter,
    call_rows: AllocationsBuilder,
    stacks: Rows<AllocationStackRow>,
    samples: Rows<AllocationSampleRow>,
    sites: Rows<AllocationSiteRow>,
    next_ordinal: u64,
    next_sample: u64,
    next_stack: u64,
    process: Process,
    forms: Vec<CaptureForm>,
    /// Symbols of each library; none if it is not here.
    symbols: BTreeMap<String, Option<SymbolTable>>,
}

impl AllocationTables {
    pub fn create(run: &RunDir) -> Result<Self, StoreError> {
        Ok(Self {
            calls: TableWriter::create(run.path(), Table::Allocations)?,
            call_rows: AllocationsBuilder::default(),
            stacks: Rows::create(run, Table::AllocationStacks, allocation_stacks::batch)?,
            samples: Rows::create(run, Table::AllocationSamples, allocation_samples::batch)?,
            sites: Rows::create(run, Table::AllocationSites, allocation_sites::batch)?,
            next_ordinal: 0,
            next_sample: 0,
            next_stack: 0,
            process: Process::default(),
            forms: Vec::new(),
            symbols: BTreeMap::new(),
        })
    }

    /// The next rows are of this capture.
    pub fn begin_capture(&mut self, capture: &MemrayCapture<impl Read>) {
        let header = capture.header();
        let has_calls = header.form == CaptureForm::Calls;
        self.process = Process { pid: header.pid, first_stack: self.next_stack, sample: None, has_calls };
        self.forms.push(header.form);
    }

    /// A call, and what it freed.
    pub fn push_call(
        &mut self,
        capture: &MemrayCapture<impl Read>,
        call: &AllocatorCall,
        freed_bytes: Option<u64>,
    ) -> Result<(), StoreError> {
        let place = call.stack.and_then(|stack| capture.location(stack));
        self.call_rows.push(&AllocationRow {
            ordinal: self.next_ordinal,
            pid: self.process.pid,
            thread_id: call.thread_id,
            thread: capture.thread_name(call.thread_id),
            allocator: call.allocator.name(),
            is_free: call.allocator.is_free(),
            address: call.address,
            size_bytes: call.size_bytes,
            freed_bytes,
            stack_id: call.stack.map(|stack| self.process.python(stack)),
            native_stack_id: call.native_stack.map(|frame| self.process.native(frame)),
            function: place.map(|place| place.function),
            file: place.map(|place| place.file),
            line: place.and_then(|place| place.line),
            sample_id: self.process.sample,
        });
        self.next_ordinal += 1;
        if self.call_rows.len() >= ROWS_PER_BATCH {
            self.calls.write(&self.call_rows.finish_batch())?;
        }
        Ok(())
    }

    pub fn push_sample(&mut self, sample: &MemorySample, heap: &Heap) -> Result<(), StoreError> {
        let sample_id = self.next_sample;
        self.next_sample += 1;
        self.process.sample = Some(sample_id);
        let counted = self.process.has_calls.then(|| heap.bytes()).flatten();
        self.samples.push(AllocationSampleRow {
            sample_id,
            pid: self.process.pid,
            unix_ms: sample.unix_ms,
            rss_bytes: sample.rss_bytes,
            heap_bytes: sample.heap_bytes.or(counted),
            next_ordinal: self.process.has_calls.then_some(self.next_ordinal),
        })
    }

    pub fn push_stack(&mut self, capture: &MemrayCapture<impl Read>, stack: StackId) -> Result<(), StoreError> {
        let place = capture.location(stack);
        let stack_id = self.process.python(stack);
        self.next_stack = self.next_stack.max(stack_id + 2);
        self.stacks.push(AllocationStackRow {
            stack_id,
            parent_id: capture.parent(stack).map(|parent| self.process.python(parent)),
            pid: self.process.pid,
            kind: "python",
            function: place.map(|place| place.function.to_owned()),
            file: place.map(|place| place.file.to_owned()),
            line: place.and_then(|place| place.line),
            is_entry: place.map(|place| place.is_entry),
            return_address: None,
        })
    }

    pub fn push_native_frame(
        &mut self,
        capture: &MemrayCapture<impl Read>,
        frame: &NativeFrame,
    ) -> Result<(), StoreError> {
        let image = frame.place.map(|place| (capture.image_name(place.image), place.address));
        let function = image.and_then(|(image, address)| self.native_function(image, address));
        let stack_id = self.process.native(frame.id);
        self.next_stack = self.next_stack.max(stack_id + 1);
        self.stacks.push(AllocationStackRow {
            stack_id,
            parent_id: frame.parent.map(|parent| self.process.native(parent)),
            pid: self.process.pid,
            kind: "native",
            function,
            file: image.map(|(image, _)| image.to_owned()),
            line: None,
            is_entry: None,
            return_address: Some(frame.return_address),
        })
    }

    pub fn push_site(&mut self, capture: &MemrayCapture<impl Read>, site: &AllocationSite) -> Result<(), StoreError> {
        let place = site.stack.and_then(|stack| capture.location(stack));
        self.sites.push(AllocationSiteRow {
            pid: self.process.pid,
            thread_id: site.thread_id,
            thread: capture.thread_name(site.thread_id).map(str::to_owned),
            allocator: site.allocator.name(),
            stack_id: site.stack.map(|stack| self.process.python(stack)),
            native_stack_id: site.native_stack.map(|frame| self.process.native(frame)),
            function: place.map(|place| place.function.to_owned()),
            file: place.map(|place| place.file.to_owned()),
            line: place.and_then(|place| place.line),
            peak_allocations: site.peak_allocations,
            peak_bytes: site.peak_bytes,
            leaked_allocations: site.leaked_allocations,
            leaked_bytes: site.leaked_bytes,
        })
    }

    fn native_function(&mut self, image: &str, address: u64) -> Option<String> {
        if !self.symbols.contains_key(image) && self.symbols.len() < MAX_SYMBOL_TABLES {
            let table = object_bytes(image).and_then(|bytes| SymbolTable::parse(&bytes));
            self.symbols.insert(image.to_owned(), table);
        }
        self.symbols.get(image)?.as_ref()?.find_address(address).map(demangled)
    }

    /// Libraries of native stacks whose symbols were read, and those that are not here.
    pub fn libraries(&self) -> BTreeMap<String, u64> {
        let named = self.symbols.values().flatten().count() as u64;
        let counts = [("named", named), ("missing", self.symbols.len() as u64 - named)];
        counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// Writes what is left. Tables of a form that no capture has are left out.
    pub fn finish(mut self, source: &str) -> Result<BTreeMap<String, TableOrigin>, StoreError> {
        let mut origins = BTreeMap::new();
        let mut note = |table: Table, rows: u64, basis: Basis| {
            let origin = TableOrigin { rows, basis: basis.name().to_owned(), source: source.to_owned() };
            origins.insert(table.name().to_owned(), origin);
        };
        if self.forms.contains(&CaptureForm::Calls) {
            self.calls.write(&self.call_rows.finish_batch())?;
            note(Table::Allocations, self.calls.finish()?, Basis::Exact);
        }
        if self.forms.contains(&CaptureForm::Sums) {
            note(Table::AllocationSites, self.sites.finish()?, Basis::Reported);
        }
        note(Table::AllocationStacks, self.stacks.finish()?, Basis::Exact);
        note(Table::AllocationSamples, self.samples.finish()?, Basis::Sampled);
        Ok(origins)
    }
}
