//! Lives of KV blocks by position and time, for each layer.

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::TimeAxis;
use crate::AnalysisError;
use crate::columns::{Numbers, required};

const TABLE: &str = "kv_block_lifecycle";

/// Columns of `kv_block_lifecycle` that the map is made from; a file may lack the last three.
pub const KV_MAP_COLUMNS: [&str; 7] =
    ["write_ns", "last_read_ns", "evict_ns", "total_reads", "bytes", "layer", "first_position"];

/// Cells of all layers together at most.
const MOST_CELLS: u64 = 40_000;

/// Rows and columns of a layer's map at most.
const MOST_BINS: u64 = 128;

/// Lives of KV blocks, by layer, position and time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KvMap {
    /// How time is cut.
    #[serde(flatten)]
    pub axis: TimeAxis,
    /// Positions that one row stands for.
    pub positions_per_row: u64,
    /// Rows of every layer: position `n` is in row `n / positions_per_row`.
    pub rows: u32,
    /// One entry per layer; one without a number where the table does not say.
    pub layers: Vec<KvLayerMap>,
}

/// Lives of the KV blocks of one layer. A cell is `row * bins + bin`; cells without anything are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KvLayerMap {
    /// The layer.
    pub layer: Option<u16>,
    /// Blocks that were written.
    pub lives: u64,
    /// Of them, blocks that were evicted, overwritten or cleared.
    pub evicted: u64,
    /// Operations that read one of them.
    pub reads: u64,
    /// Which cell, ascending.
    pub cell: Vec<u32>,
    /// Bytes in the cell: the mean over the part of its time that lies within the run.
    pub resident_bytes: Vec<u64>,
    /// Reads of blocks in the cell, each block's spread evenly from its write to its last read.
    pub cell_reads: Vec<f32>,
}

/// How far a table reaches: known before the map is made.
#[derive(Clone, Debug, Default)]
pub struct KvExtent {
    times_ns: Option<(u64, u64)>,
    last_position: u64,
    layers: Vec<Option<u16>>,
}

/// One block.
struct Block {
    write_ns: u64,
    last_read_ns: Option<u64>,
    evict_ns: Option<u64>,
    reads: u64,
    bytes: u64,
    layer: Option<u16>,
    position: u64,
}

struct Blocks {
    writes_ns: Numbers,
    last_reads_ns: Numbers,
    evictions_ns: Numbers,
    reads: Numbers,
    bytes: Option<Numbers>,
    layers: Option<Numbers>,
    positions: Option<Numbers>,
}

impl Blocks {
    fn new(batch: &RecordBatch) -> Result<Self, AnalysisError> {
        let needed = |column| Numbers::new(required(batch, TABLE, column)?, column);
        let optional = |column| batch.column_by_name(column).map(|array| Numbers::new(array, column)).transpose();
        Ok(Self {
            writes_ns: needed("write_ns")?,
            last_reads_ns: needed("last_read_ns")?,
            evictions_ns: needed("evict_ns")?,
            reads: needed("total_reads")?,
            bytes: optional("bytes")?,
            layers: optional("layer")?,
            positions: optional("first_position")?,
        })
    }

    fn block(&self, row: usize) -> Block {
        let of = |numbers: &Option<Numbers>| numbers.as_ref().and_then(|numbers| numbers.get(row));
        Block {
            write_ns: self.writes_ns.get(row).unwrap_or(0),
            last_read_ns: self.last_reads_ns.get(row),
            evict_ns: self.evictions_ns.get(row),
            reads: self.reads.get(row).unwrap_or(0),
            bytes: of(&self.bytes).unwrap_or(0),
            layer: of(&self.layers).and_then(|layer| u16::try_from(layer).ok()),
            position: of(&self.positions).unwrap_or(0),
        }
    }
}

impl KvExtent {
    /// Times of the trace, which the map covers whatever blocks say.
    pub fn of_trace(first_ns: u64, last_ns: u64) -> Self {
        Self { times_ns: (last_ns > 0).then_some((first_ns, last_ns)), ..Self::default() }
    }

    /// Takes rows of `kv_block_lifecycle`.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        let blocks = Blocks::new(batch)?;
        for row in 0..batch.num_rows() {
            let block = blocks.block(row);
            let end_ns = block.evict_ns.or(block.last_read_ns).unwrap_or(block.write_ns);
            let (first_ns, last_ns) = self.times_ns.unwrap_or((block.write_ns, end_ns));
            self.times_ns = Some((first_ns.min(block.write_ns), last_ns.max(end_ns)));
            self.last_position = self.last_position.max(block.position);
            if let Err(place) = self.layers.binary_search(&block.layer) {
                self.layers.insert(place, block.layer);
            }
        }
        Ok(())
    }
}

/// Makes the map, once it is known how far it reaches.
pub struct KvMapBuilder {
    map: KvMap,
    end_ns: u64,
    /// Byte-nanoseconds and reads by cell, by layer.
    cells: Vec<Vec<(f64, f64)>>,
}

impl KvMapBuilder {
    /// A map of nothing yet; none if there are no blocks.
    pub fn new(extent: &KvExtent) -> Option<Self> {
        let (first_ns, last_ns) = extent.times_ns.filter(|_| !extent.layers.is_empty())?;
        let per_layer = MOST_CELLS / extent.layers.len() as u64;
        let side = per_layer.isqrt().clamp(4, MOST_BINS);
        let positions_per_row = (extent.last_position + 1).div_ceil(side);
        let rows = (extent.last_position + 1).div_ceil(positions_per_row);
        let bin_ns = ((last_ns - first_ns) / side + 1).next_power_of_two();
        let bins = (last_ns - first_ns) / bin_ns + 1;
        let axis = TimeAxis { first_bin_ns: first_ns, bin_ns, bins: bins as u32 };
        let layers = extent.layers.iter().map(|&layer| KvLayerMap { layer, ..KvLayerMap::default() }).collect();
        let cells = vec![vec![(0.0, 0.0); (rows * bins) as usize]; extent.layers.len()];
        Some(Self { map: KvMap { axis, positions_per_row, rows: rows as u32, layers }, end_ns: last_ns, cells })
    }

    /// Takes rows of `kv_block_lifecycle`, all of which the extent knows.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        let blocks = Blocks::new(batch)?;
        (0..batch.num_rows()).for_each(|row| self.add(&blocks.block(row)));
        Ok(())
    }

    fn add(&mut self, block: &Block) {
        let Ok(place) = self.map.layers.binary_search_by_key(&block.layer, |layer| layer.layer) else { return };
        let layer = &mut self.map.layers[place];
        layer.lives += 1;
        layer.evicted += u64::from(block.evict_ns.is_some());
        layer.reads += block.reads;
        let row = block.position / self.map.positions_per_row;
        let first_cell = (row * u64::from(self.map.axis.bins)) as usize;
        let bins = self.map.axis.bins as usize;
        let Some(cells) = self.cells[place].get_mut(first_cell..first_cell + bins) else { return };
        let axis = self.map.axis;
        spread(cells, &axis, block.write_ns, block.evict_ns.unwrap_or(self.end_ns), |cell, ns| {
            cell.0 += ns * block.bytes as f64;
        });
        if let Some(last_read_ns) = block.last_read_ns {
            let span_ns = last_read_ns.saturating_sub(block.write_ns).max(1) as f64;
            let end_ns = last_read_ns.max(block.write_ns + 1);
            spread(cells, &axis, block.write_ns, end_ns, |cell, ns| cell.1 += block.reads as f64 * ns / span_ns);
        }
    }

    /// The map of all blocks that were pushed.
    pub fn finish(mut self) -> KvMap {
        let bins = self.map.axis.bins as usize;
        // The last bin usually reaches beyond the run. Its mean is over the time in which anything could be held.
        let within_ns: Vec<f64> = (0..bins).map(|bin| self.within_ns(bin).max(1) as f64).collect();
        for (layer, cells) in self.map.layers.iter_mut().zip(&self.cells) {
            for (cell, &(byte_ns, reads)) in cells.iter().enumerate().filter(|(_, cell)| **cell != (0.0, 0.0)) {
                layer.cell.push(cell as u32);
                layer.resident_bytes.push((byte_ns / within_ns[cell % bins]).round() as u64);
                layer.cell_reads.push(rounded(reads));
            }
        }
        self.map
    }

    /// Nanoseconds of a bin that lie within the run.
    fn within_ns(&self, bin: usize) -> u64 {
        let TimeAxis { first_bin_ns, bin_ns, .. } = self.map.axis;
        let begin_ns = first_bin_ns + bin as u64 * bin_ns;
        self.end_ns.min(begin_ns + bin_ns).saturating_sub(begin_ns)
    }
}

/// Gives every bin that a time span touches the nanoseconds that lie in it.
fn spread(
    cells: &mut [(f64, f64)],
    axis: &TimeAxis,
    from_ns: u64,
    to_ns: u64,
    mut add: impl FnMut(&mut (f64, f64), f64),
) {
    let bin = |now_ns: u64| (now_ns.saturating_sub(axis.first_bin_ns) / axis.bin_ns) as usize;
    let (first, last) = (bin(from_ns), bin(to_ns.max(from_ns)).min(cells.len().saturating_sub(1)));
    for index in first..=last.max(first) {
        let begin_ns = axis.first_bin_ns + index as u64 * axis.bin_ns;
        let inside_ns = to_ns.min(begin_ns + axis.bin_ns).saturating_sub(from_ns.max(begin_ns));
        if let Some(cell) = cells.get_mut(index) {
            add(cell, inside_ns as f64);
        }
    }
}

/// Three digits are more than a colour shows.
fn rounded(reads: f64) -> f32 {
    if reads <= 0.0 {
        return 0.0;
    }
    let unit = 10f64.powf(reads.log10().floor() - 2.0);
    ((reads / unit).round() * unit) as f32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, UInt16Array};

    use super::*;

    /// Write, last read, eviction, reads, layer, position; 100 bytes each.
    type Row = (i64, Option<i64>, Option<i64>, i64, u16, i64);

    fn batch(rows: &[Row]) -> RecordBatch {
        let numbers =
            |of: &dyn Fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(of).collect::<Int64Array>()) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([
            ("write_ns", numbers(&|row| Some(row.0)), true),
            ("last_read_ns", numbers(&|row| row.1), true),
            ("evict_ns", numbers(&|row| row.2), true),
            ("total_reads", numbers(&|row| Some(row.3)), true),
            ("bytes", numbers(&|_| Some(100)), true),
            ("layer", Arc::new(rows.iter().map(|row| Some(row.4)).collect::<UInt16Array>()) as ArrayRef, true),
            ("first_position", numbers(&|row| Some(row.5)), true),
        ])
        .unwrap()
    }

    fn map(rows: &[Row]) -> KvMap {
        let mut extent = KvExtent::default();
        extent.push(&batch(rows)).unwrap();
        let mut builder = KvMapBuilder::new(&extent).unwrap();
        builder.push(&batch(rows)).unwrap();
        builder.finish()
    }

    #[test]
    fn a_block_is_there_from_its_write_to_its_eviction_and_read_until_its_last_read() {
        // Bins of 1,024 ns: 131,072 ns in 128 of them.
        let map = map(&[(0, Some(2_048), Some(4_096), 8, 3, 0), (0, Some(131_000), None, 1, 3, 1)]);
        assert_eq!((map.axis.bin_ns, map.axis.bins, map.positions_per_row, map.rows), (1_024, 128, 1, 2));
        let layer = &map.layers[0];
        assert_eq!((layer.layer, layer.lives, layer.evicted, layer.reads), (Some(3), 2, 1, 9));
        let first_row = layer.cell.iter().take_while(|cell| **cell < 128).count();
        assert_eq!(layer.resident_bytes[..first_row], [100, 100, 100, 100]);
        assert_eq!(layer.cell_reads[..first_row], [4.0, 4.0, 0.0, 0.0]);
        assert_eq!(layer.resident_bytes.len() - first_row, 128, "what was not evicted stays until the end");
        let reads: f32 = layer.cell_reads[first_row..].iter().sum();
        assert!((reads - 1.0).abs() < 0.01, "{reads}");
    }

    #[test]
    fn a_block_that_is_held_throughout_is_as_large_in_the_last_bin_as_before() {
        // 129,000 ns in bins of 1,024: the run ends 1,000 ns into the last of them.
        let map = map(&[(0, None, None, 0, 0, 0), (128_500, None, Some(129_000), 0, 0, 1)]);
        assert_eq!((map.axis.bin_ns, map.axis.bins), (1_024, 126));
        let layer = &map.layers[0];
        assert_eq!(layer.resident_bytes[..126], [100; 126]);
        assert_eq!((layer.cell[126], layer.resident_bytes[126]), (2 * 126 - 1, 50), "half of the time that is left");
    }

    #[test]
    fn any_number_of_layers_and_positions_fits() {
        let rows: Vec<Row> = (0..2_000).map(|row| (row * 1_000, None, None, 0, (row % 200) as u16, row * 50)).collect();
        let map = map(&rows);
        assert_eq!(map.layers.len(), 200);
        assert_eq!(map.layers.iter().map(|layer| layer.lives).sum::<u64>(), 2_000);
        let cells = u64::from(map.rows) * u64::from(map.axis.bins) * 200;
        assert!(cells <= 2 * MOST_CELLS, "{cells}");
        assert!(map.positions_per_row * u64::from(map.rows) >= 1_999 * 50);
    }

    #[test]
    fn a_table_without_rows_has_no_map() {
        assert!(KvMapBuilder::new(&KvExtent::of_trace(1, 2)).is_none());
    }
}
