//! The lives of KV blocks.
//!
//! A block is the key or the value of one cell in one layer. All of its bytes are written by one operation and read by
//! the same operations, so a life per block is as exact as a life per byte.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use dwell_events::address_space::{address_in_other, process_of};
use dwell_events::kv_accesses::KvAccesses;
use dwell_events::schema::kv_block_lifecycle::{BeginCause, EndCause, KvBlockBuilder, KvBlockRow, KvKind};
use dwell_records::TensorShape;
use dwell_records::names::{Kept, kept_in, layer_of};

use super::ranges::ByteRange;
use crate::timeline::{Dropped, Place};

/// Sequences that can share a cell; the bits of [`Cell::sharers`].
const SEQUENCES_MAX: i32 = 64;

/// More than any real cache has; a damaged record may claim any number.
const CELLS_MAX: u64 = 1 << 26;
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// With the number of a process above it.
const ADDRESS_MAX: u64 = 1 << 62;

/// One place of a cache tensor.
#[derive(Clone, Copy, Debug)]
struct Cell {
    write_ns: u64,
    last_read_ns: u64,
    reads: u32,
    /// Where its token is now; a context shift moves it.
    position: i32,
    /// Where it was when the block was written.
    written_position: i32,
    writer: i32,
    sharers: u64,
    /// Number of the sequence in a program that does not say which it is.
    lane: Option<u32>,
    is_live: bool,
    /// Another process wrote it, which this one was forked from.
    is_inherited: bool,
}

const UNKNOWN: i32 = i32::MIN;

const EMPTY_CELL: Cell = Cell {
    write_ns: 0,
    last_read_ns: 0,
    reads: 0,
    position: UNKNOWN,
    written_position: UNKNOWN,
    writer: UNKNOWN,
    sharers: 0,
    lane: None,
    is_live: false,
    is_inherited: false,
};

impl Cell {
    /// The same in a process that is forked now. What was read before was read in the parent.
    fn inherited(&self, fork_ns: u64) -> Self {
        if !self.is_live {
            return EMPTY_CELL;
        }
        Self { write_ns: fork_ns, last_read_ns: 0, reads: 0, is_inherited: true, ..*self }
    }
}

/// The keys or the values of one layer.
#[derive(Clone)]
struct KvTensor {
    layer: u16,
    kind: KvKind,
    base: u64,
    block_bytes: u64,
    /// Bytes of one value; only a transposed cache, which is never quantised, is addressed by value.
    value_bytes: u64,
    cells_per_stream: u64,
    streams: u64,
    is_transposed: bool,
    cells: Vec<Cell>,
    /// Blocks that were stored by computations.
    stored_tokens: u64,
}

impl KvTensor {
    fn block_address(&self, cell: u64) -> u64 {
        if !self.is_transposed {
            return self.base + cell * self.block_bytes;
        }
        let (stream, cell) = (cell / self.cells_per_stream, cell % self.cells_per_stream);
        self.base + stream * self.cells_per_stream * self.block_bytes + cell * self.value_bytes
    }

    fn live_bytes(&self) -> u64 {
        self.cells.iter().filter(|cell| cell.is_live).count() as u64 * self.block_bytes
    }

    /// Whether it has this many cells per stream, streams and bytes per block.
    fn has_shape(&self, shape: (u64, u64, u64)) -> bool {
        (self.cells_per_stream, self.streams, self.block_bytes) == shape
    }

    /// The same in a process that is forked now.
    fn inherited(&self, process: u8, fork_ns: u64) -> Self {
        let cells = self.cells.iter().map(|cell| cell.inherited(fork_ns)).collect();
        Self { base: address_in_other(process, self.base), cells, stored_tokens: 0, ..*self }
    }
}

/// Number of a cache tensor.
pub type KvIndex = usize;

/// All caches of a run and the lives in them.
#[derive(Default)]
pub struct KvCaches {
    tensors: Vec<KvTensor>,
    by_address: HashMap<u64, KvIndex>,
    /// What forked processes have of their parents and have not computed with yet, by address.
    inherited: HashMap<u64, KvTensor>,
    /// Where caches are that have no name; which cells they have is not known.
    unnamed: HashSet<u64>,
    next_block_id: u64,
    live_bytes: u64,
    /// All but the number of tokens, which the tensors have.
    accesses: KvAccesses,
}

impl KvCaches {
    /// A cache without a name was found at this address.
    pub fn note_unnamed(&mut self, address: u64) {
        self.unnamed.insert(address);
    }

    /// Whether there is a cache without a name at this address.
    pub fn is_unnamed(&self, address: u64) -> bool {
        !self.unnamed.is_empty() && self.unnamed.contains(&address)
    }

    /// The cache tensor of a root tensor, registered if it is new; `None` for tensors that are not keys or values.
    pub fn index_of(&mut self, root: &TensorShape, block_bytes: u64, value_bytes: u64) -> Option<KvIndex> {
        let kind = match kept_in(&root.name)? {
            Kept::Keys => KvKind::K,
            Kept::Values => KvKind::V,
            Kept::State => return None,
        };
        let (cells_per_stream, streams) = (u64::try_from(root.ne[1]).ok()?, u64::try_from(root.ne[2]).ok()?.max(1));
        let cells = cells_per_stream.checked_mul(streams).filter(|&cells| cells > 0 && cells <= CELLS_MAX)?;
        if value_bytes == 0 || block_bytes < value_bytes || block_bytes > BLOCK_BYTES_MAX || root.address > ADDRESS_MAX
        {
            return None;
        }
        let shape = (cells_per_stream, streams, block_bytes);
        if let Some(&index) = self.by_address.get(&root.address)
            && self.tensors[index].has_shape(shape)
        {
            return Some(index);
        }
        let layer = layer_of(&root.name).unwrap_or(u16::MAX);
        let inherited = self
            .inherited
            .remove(&root.address)
            .filter(|tensor| tensor.has_shape(shape) && (tensor.kind, tensor.layer) == (kind, layer));
        let tensor = match inherited {
            Some(tensor) => tensor,
            None => KvTensor {
                layer,
                kind,
                base: root.address,
                block_bytes,
                value_bytes,
                cells_per_stream,
                streams,
                is_transposed: false,
                cells: vec![EMPTY_CELL; usize::try_from(cells).ok()?],
                stored_tokens: 0,
            },
        };
        let index = self.tensors.len();
        self.live_bytes += tensor.live_bytes();
        self.tensors.push(tensor);
        self.by_address.insert(root.address, index);
        Some(index)
    }

    /// A process was forked from another: it has the blocks that live there, from now on, once it computes with them.
    pub fn fork(&mut self, parent: u8, child: u8, time_ns: u64) {
        let used = self.by_address.values().map(|&index| &self.tensors[index]);
        // What the parent has inherited itself it passes on, whether it computed or not.
        let of_parent = used.chain(self.inherited.values()).filter(|tensor| process_of(tensor.base) == parent);
        let inherited: Vec<KvTensor> = of_parent
            .filter(|tensor| tensor.cells.iter().any(|cell| cell.is_live))
            .map(|tensor| tensor.inherited(child, time_ns))
            .collect();
        self.inherited.extend(inherited.into_iter().map(|tensor| (tensor.base, tensor)));
    }

    /// Says that the tensor holds one value of all cells after the other, rather than one cell after the other.
    pub fn set_transposed(&mut self, index: KvIndex) {
        self.tensors[index].is_transposed = true;
    }

    /// Cell that an index of a store names: the cell itself, or one value of it in a transposed cache.
    pub fn cell_of_index(&self, index: KvIndex, value: u64) -> u64 {
        let tensor = &self.tensors[index];
        if !tensor.is_transposed {
            return value;
        }
        let values_per_stream = tensor.cells_per_stream * (tensor.block_bytes / tensor.value_bytes);
        value / values_per_stream * tensor.cells_per_stream + value % tensor.cells_per_stream
    }

    /// Cells that lie in byte ranges of the tensor.
    pub fn cells_in(&self, index: KvIndex, ranges: &[ByteRange]) -> Vec<Range<u32>> {
        let tensor = &self.tensors[index];
        let mut cells: Vec<Range<u32>> = Vec::new();
        for range in ranges {
            let (from, to) = (range.address.saturating_sub(tensor.base), range.end().saturating_sub(tensor.base));
            let found = if tensor.is_transposed {
                transposed_cells(tensor, from, to)
            } else {
                (from / tensor.block_bytes) as u32..to.div_ceil(tensor.block_bytes) as u32
            };
            match cells.last() {
                Some(last) if *last == found => {}
                _ => cells.push(found),
            }
        }
        if tensor.is_transposed {
            // Every value of a cell lies in a range of its own; the cells repeat value after value.
            cells.sort_unstable_by_key(|cells| (cells.start, cells.end));
            cells.dedup();
        }
        cells
    }

    /// A block was computed for another token.
    pub fn store(&mut self, index: KvIndex, cell: u64, place: Place, time_ns: u64, out: &mut KvBlockBuilder) {
        if cell as usize >= self.tensors[index].cells.len() {
            return;
        }
        let tensor = &mut self.tensors[index];
        tensor.stored_tokens += 1;
        self.accesses.stored_bytes = self.accesses.stored_bytes.saturating_add(tensor.block_bytes);
        self.begin_life(index, cell, place, time_ns, out);
    }

    /// A block of a token is in a cell of the tensor from now on.
    fn begin_life(&mut self, index: KvIndex, cell: u64, place: Place, time_ns: u64, out: &mut KvBlockBuilder) {
        self.end_life(index, cell as usize, EndCause::Overwritten, Some(time_ns), out);
        let tensor = &mut self.tensors[index];
        tensor.cells[cell as usize] = Cell {
            write_ns: time_ns,
            last_read_ns: 0,
            reads: 0,
            position: place.position.unwrap_or(UNKNOWN),
            written_position: place.position.unwrap_or(UNKNOWN),
            writer: place.sequence.unwrap_or(UNKNOWN),
            sharers: place.sequence.map_or(0, sharer_bit),
            lane: place.lane,
            is_live: true,
            is_inherited: false,
        };
        self.live_bytes += tensor.block_bytes;
    }

    /// Blocks were read.
    pub fn load(&mut self, index: KvIndex, cells: Range<u32>, time_ns: u64) {
        let tensor = &mut self.tensors[index];
        let end = (cells.end as usize).min(tensor.cells.len());
        let cells = &mut tensor.cells[(cells.start as usize).min(end)..end];
        let mut occupied = 0;
        for cell in cells.iter_mut() {
            cell.last_read_ns = time_ns;
            cell.reads += u32::from(cell.is_live);
            occupied += u64::from(cell.is_live);
        }
        let unoccupied = cells.len() as u64 - occupied;
        let loaded = &mut self.accesses.loaded_occupied_bytes;
        *loaded = loaded.saturating_add(occupied * tensor.block_bytes);
        let loaded = &mut self.accesses.loaded_unoccupied_bytes;
        *loaded = loaded.saturating_add(unoccupied * tensor.block_bytes);
    }

    /// Blocks were written again for the same tokens.
    pub fn rewrite(&mut self, index: KvIndex, cells: Range<u32>, time_ns: u64, out: &mut KvBlockBuilder) {
        let end = (cells.end as usize).min(self.tensors[index].cells.len());
        for cell in (cells.start as usize).min(end)..end {
            let before = self.tensors[index].cells[cell];
            if before.is_live {
                self.end_life(index, cell, EndCause::Rewritten, Some(time_ns), out);
                self.tensors[index].cells[cell] = Cell {
                    write_ns: time_ns,
                    last_read_ns: 0,
                    reads: 0,
                    written_position: before.position,
                    is_inherited: false,
                    ..before
                };
                self.live_bytes += self.tensors[index].block_bytes;
            }
        }
    }

    /// Bytes of the tensor at this address were read outside of any graph.
    pub fn read_outside(&mut self, tensor_address: u64, range: ByteRange, time_ns: u64) {
        if let Some(&index) = self.by_address.get(&tensor_address) {
            let cells = self.cells_in(index, &[range]);
            cells.into_iter().for_each(|cells| self.load(index, cells, time_ns));
        }
    }

    /// Bytes of the tensor at this address were set to one value: no token has them any more.
    pub fn clear(&mut self, tensor_address: u64, range: ByteRange, time_ns: u64, out: &mut KvBlockBuilder) {
        let Some(&index) = self.by_address.get(&tensor_address) else { return };
        for cells in self.cells_in(index, &[range]) {
            let end = (cells.end as usize).min(self.tensors[index].cells.len());
            for cell in (cells.start as usize).min(end)..end {
                self.end_life(index, cell, EndCause::Removed, Some(time_ns), out);
            }
        }
    }

    /// Positions `[from, to)` of a sequence were removed; `sequence` < 0 stands for all, `to` < 0 for no end.
    pub fn remove(&mut self, sequence: i32, from: i32, to: i32, time_ns: u64, out: &mut KvBlockBuilder) {
        for index in 0..self.tensors.len() {
            for cell in 0..self.tensors[index].cells.len() {
                let state = &mut self.tensors[index].cells[cell];
                if !state.is_live || !is_within(state.position, from, to) || !is_shared_by(state, sequence) {
                    continue;
                }
                state.sharers &= if sequence < 0 { 0 } else { !sharer_bit(sequence) };
                if state.sharers == 0 {
                    self.end_life(index, cell, EndCause::Removed, Some(time_ns), out);
                }
            }
        }
    }

    /// A program gave up the blocks of one of its sequences from a position on.
    pub fn drop_lane(&mut self, process: u8, dropped: Dropped, time_ns: u64, out: &mut KvBlockBuilder) {
        for index in 0..self.tensors.len() {
            if process_of(self.tensors[index].base) != process {
                continue;
            }
            for cell in 0..self.tensors[index].cells.len() {
                let state = &self.tensors[index].cells[cell];
                let is_gone = state.lane == Some(dropped.lane) && is_within(state.position, dropped.from, -1);
                if state.is_live && is_gone {
                    self.end_life(index, cell, EndCause::Removed, Some(time_ns), out);
                }
            }
        }
    }

    /// Streams of the cache in which cells lie, one for each; none if all sequences share one.
    pub fn streams_of(&self, index: KvIndex, cells: &[i64]) -> Option<Vec<u32>> {
        let tensor = &self.tensors[index];
        let stream = |&cell: &i64| u32::try_from(u64::try_from(cell).ok()? / tensor.cells_per_stream).ok();
        if tensor.streams == 1 || tensor.is_transposed { None } else { cells.iter().map(stream).collect() }
    }

    /// Positions `[from, to)` of a sequence moved by `delta`.
    pub fn shift(&mut self, sequence: i32, from: i32, to: i32, delta: i32) {
        for cell in self.tensors.iter_mut().flat_map(|tensor| &mut tensor.cells) {
            if cell.is_live && is_within(cell.position, from, to) && is_shared_by(cell, sequence) {
                cell.position = cell.position.saturating_add(delta);
            }
        }
    }

    /// A sequence got the cells of another. In a unified cache they are shared; with a stream per sequence they are
    /// copied, outside the graph: the bytes of that copy are returned.
    pub fn copy(&mut self, source: i32, target: i32, time_ns: u64, out: &mut KvBlockBuilder) -> u64 {
        let mut copied_bytes = 0;
        for index in 0..self.tensors.len() {
            let (streams, per_stream) = (self.tensors[index].streams, self.tensors[index].cells_per_stream);
            if streams == 1 {
                for cell in &mut self.tensors[index].cells {
                    if cell.is_live && is_shared_by(cell, source) {
                        cell.sharers |= sharer_bit(target);
                    }
                }
                continue;
            }
            let stream_of = |sequence: i32| u64::try_from(sequence).ok().filter(|&stream| stream < streams);
            let (Some(from), Some(to)) = (stream_of(source), stream_of(target)) else { continue };
            for cell in 0..per_stream {
                let original = self.tensors[index].cells[(from * per_stream + cell) as usize];
                if original.is_live {
                    let place = Place {
                        position: Some(original.position).filter(|&position| position != UNKNOWN),
                        sequence: Some(target),
                        lane: None,
                    };
                    self.begin_life(index, to * per_stream + cell, place, time_ns, out);
                    copied_bytes += self.tensors[index].block_bytes;
                }
            }
        }
        copied_bytes
    }

    /// What was loaded and stored so far.
    pub fn accesses(&self) -> KvAccesses {
        // Every token has a key in the first layer that has any, in each of the processes.
        let first_layer = self.tensors.iter().map(|tensor| tensor.layer).min();
        let is_counted = |tensor: &&KvTensor| Some(tensor.layer) == first_layer && tensor.kind == KvKind::K;
        let stored_tokens = self.tensors.iter().filter(is_counted).map(|tensor| tensor.stored_tokens).sum();
        KvAccesses { stored_tokens, ..self.accesses }
    }

    /// Ends what still lives, at the end of the run.
    pub fn finish(&mut self, out: &mut KvBlockBuilder) {
        for index in 0..self.tensors.len() {
            for cell in 0..self.tensors[index].cells.len() {
                self.end_life(index, cell, EndCause::Teardown, None, out);
            }
        }
    }

    /// Bytes of all blocks that live now.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    fn end_life(
        &mut self,
        index: KvIndex,
        cell: usize,
        end_cause: EndCause,
        evict_ns: Option<u64>,
        out: &mut KvBlockBuilder,
    ) {
        let tensor = &mut self.tensors[index];
        let state = tensor.cells[cell];
        if !state.is_live {
            return;
        }
        tensor.cells[cell].is_live = false;
        self.live_bytes -= tensor.block_bytes;
        out.push(KvBlockRow {
            block_id: self.next_block_id,
            address: tensor.block_address(cell as u64),
            write_ns: state.write_ns,
            last_read_ns: (state.reads > 0).then_some(state.last_read_ns),
            evict_ns,
            total_reads: state.reads.into(),
            layer: tensor.layer,
            kind: tensor.kind,
            first_position: Some(state.written_position).filter(|&position| position != UNKNOWN),
            positions: 1,
            sequence: Some(state.writer).filter(|&sequence| sequence != UNKNOWN),
            bytes: tensor.block_bytes,
            cell: cell as u32,
            end_cause,
            begin_cause: if state.is_inherited { BeginCause::Inherited } else { BeginCause::Written },
        });
        self.next_block_id += 1;
    }
}

fn transposed_cells(tensor: &KvTensor, from: u64, to: u64) -> Range<u32> {
    let (first, end) = (from / tensor.value_bytes, to.div_ceil(tensor.value_bytes));
    let values_per_stream = tensor.cells_per_stream * (tensor.block_bytes / tensor.value_bytes);
    let stream_first = first / values_per_stream * tensor.cells_per_stream;
    if end - first >= tensor.cells_per_stream {
        let stream_end = end.div_ceil(values_per_stream) * tensor.cells_per_stream;
        return stream_first as u32..stream_end as u32;
    }
    let cell = stream_first + first % tensor.cells_per_stream;
    cell as u32..(cell + end - first) as u32
}

fn sharer_bit(sequence: i32) -> u64 {
    if (0..SEQUENCES_MAX).contains(&sequence) { 1 << sequence } else { 0 }
}

fn is_shared_by(cell: &Cell, sequence: i32) -> bool {
    sequence < 0 || cell.sharers & sharer_bit(sequence) != 0
}

fn is_within(position: i32, from: i32, to: i32) -> bool {
    position != UNKNOWN && position >= from && (to < 0 || position < to)
}
