//! Reading the operands whose values decide which bytes are touched: row numbers, chosen experts, visible cells.

use crate::encode::{Put, mark_visible, put_runs};

/// Reads one operand whose values decide which bytes are touched.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    Integers { data: *const u8, ne: [i64; 4], nb: [usize; 4], is_wide: bool },
    Mask { data: *const u8, cells: usize, rows: usize, streams: usize, nb: [usize; 4], is_half: bool },
}

// SAFETY: a reader only says where to look; it is used on the thread that computes the graph, while the graph lives.
unsafe impl Send for Reader {}
// SAFETY: as above; it is never written to after it was made.
unsafe impl Sync for Reader {}

impl Reader {
    /// Appends the operand's values to `out`.
    ///
    /// # Safety
    /// The graph that this reader was made for is alive and the operand holds its values.
    pub(crate) unsafe fn append_to(&self, out: &mut Vec<u8>) {
        match *self {
            Reader::Integers { data, ne, nb, is_wide } => {
                let at = |i: [i64; 4]| {
                    let offset: usize = (0..4).map(|dim| i[dim] as usize * nb[dim]).sum();
                    // SAFETY: the indices stay inside the operand's shape.
                    unsafe {
                        let value = data.add(offset);
                        if is_wide {
                            value.cast::<i64>().read_unaligned()
                        } else {
                            value.cast::<i32>().read_unaligned().into()
                        }
                    }
                };
                let values = (0..ne[3]).flat_map(move |i3| {
                    (0..ne[2])
                        .flat_map(move |i2| (0..ne[1]).flat_map(move |i1| (0..ne[0]).map(move |i0| [i0, i1, i2, i3])))
                });
                put_runs(out, values.map(at));
            }
            Reader::Mask { data, cells, rows, streams, nb, is_half } => {
                let words_per_stream = cells.div_ceil(64);
                out.put_u32(cells as u32);
                out.put_u32((words_per_stream * streams) as u32);
                for stream in 0..streams {
                    // SAFETY: stream and row stay inside the mask's shape.
                    let row_at = |row: usize| unsafe { data.add(stream * nb[3] + row * nb[1]) };
                    put_visible(out, cells, rows, row_at, is_half);
                }
            }
        }
    }
}

/// Bits of minus infinity, which hides a cell.
const HIDDEN_HALF: u16 = 0xFC00;
const HIDDEN_SINGLE: u32 = 0xFF80_0000;
/// Words of the bitmap that are gathered on the stack: 64 Ki cells. A longer context is done in parts.
const WORDS_ON_STACK: usize = 1024;

fn put_visible(out: &mut Vec<u8>, cells: usize, rows: usize, row_at: impl Fn(usize) -> *const u8, is_half: bool) {
    let mut words = [0u64; WORDS_ON_STACK];
    for first_cell in (0..cells).step_by(WORDS_ON_STACK * 64) {
        let part_cells = (cells - first_cell).min(WORDS_ON_STACK * 64);
        let words = &mut words[..part_cells.div_ceil(64)];
        words.fill(0);
        mark_visible(words, part_cells, rows, |row, cell| {
            // SAFETY: cell stays below the row's length.
            unsafe {
                let row = row_at(row);
                if is_half {
                    row.cast::<u16>().add(first_cell + cell).read_unaligned() == HIDDEN_HALF
                } else {
                    row.cast::<u32>().add(first_cell + cell).read_unaligned() == HIDDEN_SINGLE
                }
            }
        });
        words.iter().for_each(|&word| out.put_u64(word));
    }
}
