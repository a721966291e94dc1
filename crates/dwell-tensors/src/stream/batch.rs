//! A batch on its way to the disk: parts that lie one after another in the file and anywhere in memory.

use std::io::IoSlice;

use super::grant::Lease;
use super::parcel::Source;
use crate::container::{BatchFrame, PAGE_BYTES};

static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// A batch with its place in the file.
pub(super) struct Batch {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    head: Vec<u8>,
    payloads: Vec<Source>,
    tail_bytes: usize,
    /// Where each part begins, from the beginning of the batch: head, payloads, tail.
    starts: Vec<u64>,
    /// Freed with the batch.
    _leases: Vec<Lease>,
}

impl Batch {
    pub(super) fn new(offset: u64, frame: BatchFrame, payloads: Vec<Source>, leases: Vec<Lease>) -> Self {
        let bytes = frame.bytes();
        let mut starts = Vec::with_capacity(payloads.len() + 2);
        let mut start = 0;
        for part in std::iter::once(frame.head.len()).chain(payloads.iter().map(|payload| payload.bytes().len())) {
            starts.push(start);
            start += part as u64;
        }
        starts.push(start);
        Self { offset, bytes, head: frame.head, payloads, tail_bytes: frame.tail_bytes, starts, _leases: leases }
    }

    fn part(&self, index: usize) -> &[u8] {
        match index.checked_sub(1) {
            None => &self.head,
            Some(payload) if payload < self.payloads.len() => self.payloads[payload].bytes(),
            Some(_) => &ZEROS[..self.tail_bytes],
        }
    }

    /// The bytes from `start` up to `end`, both from the beginning of the batch.
    pub(super) fn slices(&self, start: u64, end: u64) -> impl Iterator<Item = &[u8]> {
        let first = self.starts.partition_point(|&part_start| part_start <= start).saturating_sub(1);
        let parts = self.starts.iter().enumerate().skip(first).take_while(move |&(_, &part_start)| part_start < end);
        parts.map(move |(index, &part_start)| {
            let part = self.part(index);
            let from = start.saturating_sub(part_start).min(part.len() as u64) as usize;
            let to = (end - part_start).min(part.len() as u64) as usize;
            &part[from..to]
        })
    }

    /// The same as at most `most` slices for one system call.
    pub(super) fn io_slices(&self, start: u64, end: u64, most: usize) -> Vec<IoSlice<'_>> {
        self.slices(start, end).filter(|slice| !slice.is_empty()).take(most).map(IoSlice::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<u8>);

    impl super::super::Elements for Fixed {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn every_range_of_a_batch_is_the_same_range_of_its_bytes() {
        let payload = |bytes: &[u8]| Source::Foreign(Box::new(Fixed(bytes.to_vec())));
        let frame = BatchFrame { head: b"head".to_vec(), payload_bytes: 6, tail_bytes: 3 };
        let batch = Batch::new(0, frame, vec![payload(b"ab"), Source::Nothing, payload(b"cdef")], Vec::new());
        let whole = b"headabcdef\0\0\0";
        assert_eq!(batch.bytes, whole.len() as u64);
        for start in 0..=whole.len() {
            for end in start..=whole.len() {
                let found: Vec<u8> = batch.slices(start as u64, end as u64).flatten().copied().collect();
                assert_eq!(found, whole[start..end], "{start}..{end}");
            }
        }
    }
}
