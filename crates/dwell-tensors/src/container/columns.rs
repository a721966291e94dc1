//! The small columns of a batch as buffers of an Arrow IPC body.

use std::borrow::Cow;

use arrow_ipc::{Buffer, FieldNode};

use super::padding;
use super::row::Row;

/// What every buffer is aligned to.
pub(super) const ALIGNMENT_BYTES: usize = 64;

/// A body that grows column by column, in the order of the schema.
pub(super) struct Body<'a> {
    rows: &'a [Row],
    pub(super) bytes: Vec<u8>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) nodes: Vec<FieldNode>,
}

impl<'a> Body<'a> {
    pub(super) fn new(rows: &'a [Row]) -> Self {
        Self { rows, bytes: Vec::new(), buffers: Vec::new(), nodes: Vec::new() }
    }

    /// A column of numbers, as little-endian bytes.
    pub(super) fn numbers<const N: usize>(&mut self, cell: impl Fn(&'a Row) -> Option<[u8; N]>) {
        self.begin_column(|row| cell(row).is_some());
        self.begin_buffer();
        for row in self.rows {
            self.bytes.extend_from_slice(&cell(row).unwrap_or([0; N]));
        }
        self.end_buffer();
    }

    /// A column of texts.
    pub(super) fn texts(&mut self, cell: impl Fn(&'a Row) -> Option<Cow<'a, str>>) {
        let cells: Vec<_> = self.rows.iter().map(cell).collect();
        let mut validity = cells.iter().map(Option::is_some);
        self.begin_column(|_| validity.next().unwrap_or(false));
        self.offsets(cells.iter().map(|cell| cell.as_ref().map_or(0, |text| text.len())));
        self.begin_buffer();
        for text in cells.iter().flatten() {
            self.bytes.extend_from_slice(text.as_bytes());
        }
        self.end_buffer();
    }

    /// A column of lists of numbers; the numbers are a column of their own.
    pub(super) fn lists(&mut self, cell: impl Fn(&'a Row) -> Option<&'a [u64]>) {
        self.begin_column(|row| cell(row).is_some());
        let rows = self.rows;
        self.offsets(rows.iter().map(|row| cell(row).map_or(0, <[u64]>::len)));
        let values = rows.iter().filter_map(&cell).flatten();
        self.nodes.push(FieldNode::new(values.clone().count() as i64, 0));
        self.no_buffer();
        self.begin_buffer();
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self.end_buffer();
    }

    /// Validity and offsets of the payloads. Their data is placed later, so its buffer is returned to be filled in.
    pub(super) fn payloads(&mut self) -> usize {
        self.begin_column(|row| row.head().is_some());
        self.begin_buffer();
        let mut end = 0_u64;
        self.bytes.extend_from_slice(&end.to_le_bytes());
        for row in self.rows {
            end += row.payload_bytes();
            self.bytes.extend_from_slice(&end.to_le_bytes());
        }
        self.end_buffer();
        self.no_buffer();
        self.buffers.len() - 1
    }

    /// The node of a column and its validity bits, which are left out where every cell has a value.
    fn begin_column(&mut self, mut is_valid: impl FnMut(&'a Row) -> bool) {
        let mut bits = vec![0_u8; self.rows.len().div_ceil(8)];
        let mut nulls = 0;
        for (place, row) in self.rows.iter().enumerate() {
            if is_valid(row) {
                bits[place / 8] |= 1 << (place % 8);
            } else {
                nulls += 1;
            }
        }
        self.nodes.push(FieldNode::new(self.rows.len() as i64, nulls));
        if nulls == 0 {
            return self.no_buffer();
        }
        self.begin_buffer();
        self.bytes.extend_from_slice(&bits);
        self.end_buffer();
    }

    /// 32-bit offsets; [`super::MAX_BATCH_ROWS`] and [`super::MAX_TEXT_BYTES`] keep them in range.
    fn offsets(&mut self, lengths: impl Iterator<Item = usize>) {
        self.begin_buffer();
        let mut end = 0_u32;
        self.bytes.extend_from_slice(&end.to_le_bytes());
        for length in lengths {
            end += length as u32;
            self.bytes.extend_from_slice(&end.to_le_bytes());
        }
        self.end_buffer();
    }

    fn no_buffer(&mut self) {
        self.buffers.push(Buffer::new(self.bytes.len() as i64, 0));
    }

    fn begin_buffer(&mut self) {
        self.buffers.push(Buffer::new(self.bytes.len() as i64, 0));
    }

    fn end_buffer(&mut self) {
        let end = self.bytes.len();
        if let Some(buffer) = self.buffers.last_mut() {
            *buffer = Buffer::new(buffer.offset(), end as i64 - buffer.offset());
        }
        self.bytes.resize(end + padding(end, ALIGNMENT_BYTES), 0);
    }
}
