//! One computation of a graph, as rows.

use std::ops::Range;

use dwell_events::RegionType;
use dwell_events::schema::trace::TraceRow;
use dwell_events::{LossKind, OpType};
use dwell_records::{CaptureForm, IndexRuns, Step, VisibleCells, WorkBuffer};

use super::compiled::{Bytes, CompiledGraph, CompiledOperand, CompiledUnit};
use super::kv::{KvCaches, KvIndex};
use super::ranges::{ByteRange, Layout, RANGES_MAX, join};
use super::work::Work;
use super::{DSO, SOURCE};
use crate::loss_count::LossCount;
use crate::output::Output;
use crate::regions::{RegionPlace, Regions};
use crate::timeline::Computation;

/// What the writing of inputs is called in the `symbol` column.
const INPUT_SYMBOL: &str = "set_input";

/// What a work buffer is called in the `tensor` column.
const WORK_TENSOR: &str = "work_buffer";

/// A captured operand, decoded.
pub enum Captured {
    Indices(IndexRuns),
    Cells(VisibleCells),
    /// It was not captured in this step.
    Missing,
}

impl Captured {
    /// The integers, if it holds integers.
    pub fn integers(&self) -> Option<Vec<i64>> {
        match self {
            Captured::Indices(runs) => Some(runs.values().collect()),
            _ => None,
        }
    }
}

/// Decodes what a step captured, one entry per capture of its graph.
pub fn decode_captures(graph: &CompiledGraph, step: &Step) -> Vec<Captured> {
    let decode = |(index, form): (usize, CaptureForm)| {
        let Some(bytes) = step.captures.get(index) else { return Captured::Missing };
        match form {
            CaptureForm::Indices => IndexRuns::decode(bytes).map_or(Captured::Missing, Captured::Indices),
            CaptureForm::VisibleCells => VisibleCells::decode(bytes).map_or(Captured::Missing, Captured::Cells),
        }
    };
    graph.captures.iter().map(|capture| capture.form).enumerate().map(decode).collect()
}

/// Bytes that an operand touched in one step, and the KV cells they are.
#[derive(Default)]
struct Touched {
    ranges: Vec<ByteRange>,
    cells: Vec<Range<u32>>,
}

/// A work buffer of a step, as memory that units touch.
pub struct WorkMemory {
    first_unit: usize,
    operand: CompiledOperand,
    threads: u32,
}

/// Writes the rows of one step.
pub struct Expansion<'a> {
    pub regions: &'a mut Regions,
    pub kv: &'a mut KvCaches,
    pub loss: &'a mut LossCount,
    pub computation: &'a Computation,
    pub out: &'a mut Output,
}

impl Expansion<'_> {
    /// Declares a work buffer of the step.
    pub fn work_memory(&mut self, work: WorkBuffer) -> WorkMemory {
        let (address, size_bytes) = (work.address, work.size_bytes);
        let place =
            RegionPlace { region_type: RegionType::WorkBuffer, tensor: WORK_TENSOR, layer: None, address, size_bytes };
        let operand = CompiledOperand {
            region: self.regions.declare(&place),
            extent: ByteRange { address, size_bytes },
            kv: None,
            bytes: Bytes::Fixed { ranges: Vec::new(), cells: Vec::new() },
        };
        WorkMemory { first_unit: work.first_unit as usize, operand, threads: work.threads }
    }

    /// Writes all rows of a step: unit after unit, loads before stores.
    pub fn run(&mut self, graph: &CompiledGraph, step: &Step, captures: &[Captured], memories: &[WorkMemory]) {
        let is_timed = step.times_ns.len() == graph.stamps;
        for (index, unit) in graph.units.iter().enumerate() {
            let time_ns = if is_timed { step.times_ns.get(unit.stamp).copied() } else { None };
            let time_ns = time_ns.unwrap_or(step.end_ns);
            let symbol = &graph.op_names[usize::from(unit.op)];
            if unit.is_assumed {
                self.loss.add(LossKind::GenericOpRule, 1, None, || format!("operation {symbol}"));
            }
            if unit.has_shared_loads {
                self.shared_loads(&unit.loads, symbol, captures, time_ns, step.thread);
            } else {
                self.loads(&unit.loads, symbol, captures, time_ns, step.thread);
            }
            let memory = memories.iter().rfind(|memory| memory.first_unit <= index);
            if let (Some(work), Some(memory)) = (&unit.work, memory) {
                self.work(work, memory, symbol, captures, time_ns, step.thread);
            }
            self.stores(unit, symbol, captures, time_ns, step.thread);
            self.loads(&unit.reloads, symbol, captures, time_ns, step.thread);
        }
    }

    /// Writes what the runtime stored before the computation: the inputs that it reads.
    pub fn inputs(&mut self, graph: &CompiledGraph, step: &Step) {
        for input in &graph.inputs {
            if let Bytes::Fixed { ranges, .. } = &input.bytes {
                self.rows(input, OpType::Store, INPUT_SYMBOL, ranges, step.begin_ns, step.thread);
            }
        }
    }

    /// What a kernel stores in the work buffer, and what of it it loads again.
    fn work(
        &mut self,
        work: &Work,
        memory: &WorkMemory,
        symbol: &str,
        captures: &[Captured],
        time_ns: u64,
        thread: u32,
    ) {
        let base = memory.operand.extent.address;
        let stored = work.stored(base, memory.threads);
        self.rows(&memory.operand, OpType::Store, symbol, &stored, time_ns, thread);
        let loaded = work.loaded(base, memory.threads, captures);
        self.rows(&memory.operand, OpType::Load, symbol, &loaded, time_ns, thread);
    }

    fn loads(&mut self, operands: &[CompiledOperand], symbol: &str, captures: &[Captured], time_ns: u64, thread: u32) {
        for operand in operands {
            if let Bytes::Fixed { ranges, cells } = &operand.bytes {
                self.rows(operand, OpType::Load, symbol, ranges, time_ns, thread);
                self.count_reads(operand.kv, cells, time_ns);
            } else {
                let touched = self.touched(operand, symbol, captures);
                self.rows(operand, OpType::Load, symbol, &touched.ranges, time_ns, thread);
                self.count_reads(operand.kv, &touched.cells, time_ns);
            }
        }
    }

    /// Loads of operands of which several are parts of one tensor, such as keys and values that are the same bytes: each
    /// byte once.
    fn shared_loads(
        &mut self,
        operands: &[CompiledOperand],
        symbol: &str,
        captures: &[Captured],
        time_ns: u64,
        thread: u32,
    ) {
        let mut by_region: Vec<(&CompiledOperand, Vec<ByteRange>)> = Vec::new();
        for operand in operands {
            let ranges = match &operand.bytes {
                Bytes::Fixed { ranges, .. } => ranges.clone(),
                _ => self.touched(operand, symbol, captures).ranges,
            };
            match by_region.iter_mut().find(|(first, _)| first.region.id == operand.region.id) {
                Some((_, all)) => all.extend(ranges),
                None => by_region.push((operand, ranges)),
            }
        }
        for (operand, ranges) in by_region {
            let ranges = join(ranges);
            self.rows(operand, OpType::Load, symbol, &ranges, time_ns, thread);
            if let Some(index) = operand.kv {
                let cells = self.kv.cells_in(index, &ranges);
                self.count_reads(operand.kv, &cells, time_ns);
            }
        }
    }

    fn stores(&mut self, unit: &CompiledUnit, symbol: &str, captures: &[Captured], time_ns: u64, thread: u32) {
        for operand in &unit.stores {
            match &operand.bytes {
                Bytes::Fixed { ranges, cells } => {
                    self.rows(operand, OpType::Store, symbol, ranges, time_ns, thread);
                    for cells in operand.kv.iter().flat_map(|_| cells) {
                        let index = operand.kv.expect("iterated over");
                        self.kv.rewrite(index, cells.clone(), time_ns, &mut self.out.blocks);
                    }
                }
                Bytes::Rows { capture, .. } => {
                    let touched = self.touched(operand, symbol, captures);
                    self.rows(operand, OpType::Store, symbol, &touched.ranges, time_ns, thread);
                    if let (Some(index), Captured::Indices(indices)) = (operand.kv, &captures[*capture]) {
                        self.begin_lives(index, indices, time_ns);
                    }
                }
                Bytes::Slabs { .. } | Bytes::Cells { .. } => {}
            }
        }
    }

    fn count_reads(&mut self, kv: Option<KvIndex>, cells: &[Range<u32>], time_ns: u64) {
        if let Some(index) = kv {
            cells.iter().for_each(|cells| self.kv.load(index, cells.clone(), time_ns));
        }
    }

    /// Lives of the cells that a store names, one per token. A transposed cache is written value by value, all values of
    /// a token after each other, so only the first of each token is looked at.
    fn begin_lives(&mut self, index: KvIndex, indices: &IndexRuns, time_ns: u64) {
        let tokens = self.computation.places.len().max(1);
        let per_token = (indices.len() / tokens).max(1);
        for (row, value) in indices.values().step_by(per_token).enumerate() {
            let Ok(value) = u64::try_from(value) else { continue };
            let place = self.computation.places.get(row).copied().unwrap_or_default();
            let cell = self.kv.cell_of_index(index, value);
            self.kv.store(index, cell, place, time_ns, &mut self.out.blocks);
        }
    }

    /// The bytes of an operand that change per step.
    fn touched(&mut self, operand: &CompiledOperand, symbol: &str, captures: &[Captured]) -> Touched {
        let (capture, layout) = match &operand.bytes {
            Bytes::Rows { capture, layout, .. }
            | Bytes::Slabs { capture, layout, .. }
            | Bytes::Cells { capture, layout, .. } => (&captures[*capture], layout),
            Bytes::Fixed { .. } => return Touched::default(),
        };
        match (&operand.bytes, capture) {
            (Bytes::Rows { indices_ne, .. }, Captured::Indices(indices)) => {
                Touched { ranges: row_ranges(layout, indices, indices_ne), cells: Vec::new() }
            }
            (Bytes::Slabs { dimension, .. }, Captured::Indices(indices)) => {
                let mut slabs: Vec<u64> = indices.values().filter_map(|slab| u64::try_from(slab).ok()).collect();
                slabs.sort_unstable();
                slabs.dedup();
                let ranges = slabs.into_iter().flat_map(|slab| layout.slice(*dimension, slab, 1).ranges()).collect();
                Touched { ranges: join(ranges), cells: Vec::new() }
            }
            (Bytes::Cells { tile, .. }, Captured::Cells(visible)) => self.visible(operand.kv, layout, visible, *tile),
            _ => {
                // Without the captured values the whole operand is the best upper bound.
                self.loss.add(LossKind::GenericOpRule, 1, None, || format!("operation {symbol} without its indices"));
                Touched { ranges: layout.ranges(), cells: Vec::new() }
            }
        }
    }

    fn visible(&self, kv: Option<KvIndex>, layout: &Layout, visible: &VisibleCells, tile: u32) -> Touched {
        let mut touched = Touched::default();
        for stream in 0..layout.ne[3] {
            // One mask may serve all streams.
            let mask_stream = stream as usize % visible.streams().max(1);
            for cells in visible_runs(visible, mask_stream, layout.ne[1] as u32, tile) {
                let part = layout.slice(3, stream, 1).slice(1, cells.start.into(), u64::from(cells.end - cells.start));
                touched.ranges.extend(part.ranges());
            }
        }
        touched.ranges = join(touched.ranges);
        if let Some(index) = kv {
            touched.cells = self.kv.cells_in(index, &touched.ranges);
        }
        touched
    }

    fn rows(
        &mut self,
        operand: &CompiledOperand,
        op_type: OpType,
        symbol: &str,
        ranges: &[ByteRange],
        timestamp_ns: u64,
        thread: u32,
    ) {
        let region = &operand.region;
        let moment = &self.computation.moment;
        for range in ranges {
            let inside = range.within(&operand.extent);
            if inside != *range {
                count_outside(self.loss, operand, symbol, range.size_bytes - inside.size_bytes);
                if inside.size_bytes == 0 {
                    continue;
                }
            }
            let row = TraceRow {
                timestamp_ns,
                phase: moment.phase,
                address: inside.address,
                size_bytes: inside.size_bytes,
                op_type,
                symbol,
                dso: DSO,
                region_type: region.region_type,
                region_id: region.id,
                thread_id: Some(thread),
                token_index: moment.token_index,
                context_tokens: moment.context_tokens,
                step: moment.step,
                tensor: &region.tensor,
                layer: region.layer,
                source: SOURCE,
                period: 1,
                ..TraceRow::EMPTY
            };
            self.regions.push(row, &mut self.out.trace);
        }
    }
}

/// Counts a range that lies outside its tensor, or this many bytes of it. No kernel touches such bytes: a rule is wrong,
/// or a record is damaged.
#[cold]
fn count_outside(loss: &mut LossCount, operand: &CompiledOperand, symbol: &str, bytes: u64) {
    let detail = || format!("operation {symbol}, tensor {}", operand.region.tensor);
    loss.add(LossKind::RowsOutsideTensor, 1, Some(bytes), detail);
}

/// Ranges of the rows that indices name: in each plane of the table those of the same plane of the indices, whose planes
/// repeat where there are fewer.
fn row_ranges(layout: &Layout, indices: &IndexRuns, indices_ne: &[u64; 4]) -> Vec<ByteRange> {
    let planes = layout.ne[2].saturating_mul(layout.ne[3]);
    if planes <= 1 {
        return join(plane_rows(layout, indices.values()).collect());
    }
    let index_planes = indices_ne.map(|count| count.max(1));
    if planes.saturating_mul(index_planes[0]) > RANGES_MAX {
        return layout.ranges();
    }
    let values: Vec<i64> = indices.values().collect();
    let mut ranges = Vec::with_capacity(values.len());
    for (outer, inner) in (0..layout.ne[3]).flat_map(|outer| (0..layout.ne[2]).map(move |inner| (outer, inner))) {
        let plane = outer % index_planes[2] * index_planes[1] + inner % index_planes[1];
        let first = (plane * index_planes[0]) as usize;
        let named = values.get(first..).unwrap_or_default().iter().copied().take(index_planes[0] as usize);
        ranges.extend(plane_rows(&layout.slice(3, outer, 1).slice(2, inner, 1), named));
    }
    join(ranges)
}

/// Rows of the first plane of a layout.
fn plane_rows(layout: &Layout, rows: impl Iterator<Item = i64>) -> impl Iterator<Item = ByteRange> {
    rows.filter_map(|row| u64::try_from(row).ok()).map(|row| ByteRange {
        address: layout.address.saturating_add(row.saturating_mul(layout.nb[1])),
        size_bytes: layout.row_bytes,
    })
}

/// Runs of cells that are read: those that are visible, widened to whole tiles.
fn visible_runs(visible: &VisibleCells, stream: usize, cells: u32, tile: u32) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for first in (0..cells).step_by(tile as usize) {
        let end = (first + tile).min(cells);
        if !(first..end).any(|cell| visible.is_visible(stream, cell as usize)) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == first => last.end = end,
            _ => runs.push(first..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_cells_are_read_alone_or_in_whole_tiles() {
        let mut visible = VisibleCells { cells: 200, words: vec![0; 4] };
        for cell in [0, 1, 2, 70, 199] {
            visible.words[cell / 64] |= 1 << (cell % 64);
        }
        assert_eq!(visible_runs(&visible, 0, 200, 1), [0..3, 70..71, 199..200]);
        assert_eq!(visible_runs(&visible, 0, 200, 64), [0..128, 192..200]);
    }
}
