//! Reading the operands whose values decide which bytes are touched: row numbers, chosen experts, visible cells.

use dwell_records::{IndexRuns, VisibleCells};

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
                IndexRuns::encode_into(out, values.map(at));
            }
            Reader::Mask { data, cells, rows, streams, nb, is_half } => {
                VisibleCells::encode_header_into(out, cells, streams);
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
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// Marks in `visible` the cells that any row of a mask lets through.
///
/// `is_hidden(row, cell)` is asked as rarely as possible: rows are visited from the last to the first, because the
/// last row of a causal mask sees the most, and cells that were seen are not asked again.
fn mark_visible(visible: &mut [u64], cells: usize, rows: usize, is_hidden: impl Fn(usize, usize) -> bool) {
    for row in (0..rows).rev() {
        for (index, word) in visible.iter_mut().enumerate() {
            let first = index * 64;
            let width = (cells - first).min(64);
            let full = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            if *word == full {
                continue;
            }
            for bit in 0..width {
                *word |= u64::from(!is_hidden(row, first + bit)) << bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_visible_if_any_row_sees_it() {
        let cells = 130;
        let sees = |row: usize, cell: usize| cell <= row + 62 || (row == 1 && cell == 129);
        let mut visible = vec![0u64; 3];
        mark_visible(&mut visible, cells, 4, |row, cell| !sees(row, cell));
        for cell in 0..cells {
            let expected = (0..4).any(|row| sees(row, cell));
            assert_eq!(visible[cell / 64] >> (cell % 64) & 1 == 1, expected, "cell {cell}");
        }
    }
}
