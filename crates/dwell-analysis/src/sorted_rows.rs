//! Rows of a trace that are sorted outside of the analyser, because they may be more than fit memory.

use arrow_array::RecordBatch;
use dwell_events::OpType;

use crate::reader::{Access, Manner, TraceBatch};
use crate::region_type::RegionTypeNames;
use crate::{AnalysisError, Basis, Definitions};

/// A row with its place in the order of time. Rows compare by time and, where times are equal, by `sample_id` or by their
/// number in the trace.
#[derive(Clone, Copy, Debug)]
pub struct SortableRow {
    place: u64,
    pub(crate) access: Access,
}

impl SortableRow {
    /// Bytes of a row that is written down.
    pub const BYTES: usize = 56;

    /// What rows are sorted by; no two rows of a trace without a `sample_id` have the same.
    pub fn key(&self) -> (u64, u64) {
        (self.access.timestamp_ns, self.place)
    }

    /// The row as bytes, for a file of this process.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let access = &self.access;
        let mut bytes = [0; Self::BYTES];
        let numbers = [access.timestamp_ns, self.place, access.address, access.size_bytes, access.region_id];
        for (place, number) in numbers.into_iter().enumerate() {
            bytes[place * 8..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&access.step.unwrap_or(0).to_le_bytes());
        bytes[44..48].copy_from_slice(&access.period.to_le_bytes());
        bytes[48..50].copy_from_slice(&access.region_type.to_le_bytes());
        bytes[50] = u8::from(access.step.is_some());
        bytes[51] = u8::from(access.op_type == OpType::Store);
        bytes[52] = BASES.iter().position(|basis| *basis == access.basis).unwrap_or(0) as u8;
        bytes[53] = MANNERS.iter().position(|manner| *manner == access.manner).unwrap_or(0) as u8;
        bytes
    }

    /// Reads what [`SortableRow::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[from + byte]));
        let short = |from: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[from + byte]));
        let access = Access {
            timestamp_ns: number(0),
            address: number(16),
            size_bytes: number(24),
            region_id: number(32),
            step: (bytes[50] != 0).then(|| short(40)),
            period: short(44),
            region_type: u16::from_le_bytes([bytes[48], bytes[49]]),
            op_type: if bytes[51] != 0 { OpType::Store } else { OpType::Load },
            basis: BASES[usize::from(bytes[52]).min(BASES.len() - 1)],
            manner: MANNERS[usize::from(bytes[53]).min(MANNERS.len() - 1)],
        };
        Self { place: number(8), access }
    }
}

/// The bases that rows of a trace have.
const BASES: [Basis; 3] = [Basis::Exact, Basis::Page, Basis::Sampled];

const MANNERS: [Manner; 3] = [Manner::Ordinary, Manner::Clear, Manner::Concluded];

/// Makes rows that can be sorted of the batches of a trace, in their order.
pub struct SortableRows {
    definitions: Definitions,
    names: RegionTypeNames,
    rows: u64,
}

impl SortableRows {
    /// No row has come yet.
    pub fn new(definitions: Definitions) -> Self {
        Self { definitions, names: RegionTypeNames::new(), rows: 0 }
    }

    /// The rows of the next batch.
    pub fn push(&mut self, batch: &RecordBatch, mut row: impl FnMut(SortableRow)) -> Result<(), AnalysisError> {
        let batch = TraceBatch::new(batch, &mut self.names)?;
        (0..batch.rows())
            .for_each(|index| row(sortable_row(&batch, index, self.rows + index as u64, self.definitions)));
        self.rows += batch.rows() as u64;
        Ok(())
    }
}

/// A row with its place among rows of the same time: the number in the trace. mrm-trace takes rows of the same time as they
/// come.
pub(crate) fn sortable_row(batch: &TraceBatch, row: usize, number: u64, definitions: Definitions) -> SortableRow {
    let sample_id = batch.sample_id(row).filter(|_| definitions == Definitions::Dwell);
    SortableRow { place: sample_id.unwrap_or(number), access: batch.access(row) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        for (step, op_type, basis, manner) in [
            (None, OpType::Load, Basis::Exact, Manner::Ordinary),
            (Some(0), OpType::Store, Basis::Page, Manner::Clear),
            (Some(u32::MAX), OpType::Store, Basis::Sampled, Manner::Concluded),
        ] {
            let access = Access {
                timestamp_ns: u64::MAX - 1,
                address: 0x7f00_1234_5678,
                size_bytes: 1 << 40,
                region_id: 77,
                step,
                region_type: 513,
                op_type,
                basis,
                period: 4_001,
                manner,
            };
            let row = SortableRow { place: 1 << 50, access };
            assert_eq!(format!("{:?}", SortableRow::from_bytes(&row.to_bytes())), format!("{row:?}"));
        }
    }
}
