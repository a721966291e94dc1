//! Byte ranges of tensors.

use dwell_records::{Graph, TensorShape};

/// Consecutive bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub address: u64,
    /// How many.
    pub size_bytes: u64,
}

impl ByteRange {
    /// Address after the last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size_bytes)
    }

    /// The part of this range that lies inside another; empty if there is none.
    pub fn within(&self, other: &ByteRange) -> ByteRange {
        let address = self.address.max(other.address);
        ByteRange { address, size_bytes: self.end().min(other.end()).saturating_sub(address) }
    }
}

/// A tensor's shape as bytes: where it begins, its block size, and how many steps of which stride each dimension has.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// First byte.
    pub address: u64,
    /// Bytes of a row of dimension 0, which is always dense in blocks.
    pub row_bytes: u64,
    /// Whether dimension 0 is dense.
    is_dense: bool,
    /// Elements per dimension.
    pub ne: [u64; 4],
    /// Strides in bytes.
    pub nb: [u64; 4],
    block_bytes: u64,
}

impl Layout {
    /// The layout of a tensor of a graph.
    pub fn of(graph: &Graph, tensor: &TensorShape) -> Self {
        let value_type = graph.value_type(tensor);
        let (values, bytes) = (u64::from(value_type.block_values), u64::from(value_type.block_bytes));
        let ne = tensor.ne.map(|count| u64::try_from(count).unwrap_or(0));
        Self {
            address: tensor.address,
            row_bytes: (ne[0] / values).saturating_mul(bytes),
            is_dense: tensor.nb[0] == bytes,
            ne,
            nb: tensor.nb,
            block_bytes: bytes,
        }
    }

    /// The same layout with only the entries `[first, first + count)` of a dimension other than 0.
    pub fn slice(mut self, dimension: usize, first: u64, count: u64) -> Self {
        self.address = self.address.saturating_add(first.saturating_mul(self.nb[dimension]));
        self.ne[dimension] = count;
        self
    }

    /// The bytes of the layout, in ascending order, adjacent ones joined.
    pub fn ranges(&self) -> Vec<ByteRange> {
        if self.ne.contains(&0) || self.row_bytes == 0 {
            return Vec::new();
        }
        let mut dimensions: Vec<(u64, u64)> =
            (1..4).filter(|&dim| self.ne[dim] > 1).map(|dim| (self.nb[dim], self.ne[dim])).collect();
        let mut run = self.row_bytes;
        if !self.is_dense {
            run = self.block_bytes;
            dimensions.push((self.nb[0], self.ne[0]));
        }
        dimensions.sort_unstable();
        // A dimension whose stride is not larger than what is already dense makes the run longer.
        let mut outer = Vec::new();
        for (stride, count) in dimensions {
            if outer.is_empty() && stride <= run {
                run = run.saturating_add(stride.saturating_mul(count - 1));
            } else {
                outer.push((stride, count));
            }
        }
        let count = outer.iter().fold(1u64, |count, &(_, steps)| count.saturating_mul(steps));
        if count > RANGES_MAX {
            return vec![self.span(run, &outer)];
        }
        let mut ranges = Vec::new();
        push_ranges(&mut ranges, self.address, run, &outer);
        join(ranges)
    }

    /// From the first to the last byte.
    fn span(&self, run: u64, outer: &[(u64, u64)]) -> ByteRange {
        let steps = outer.iter().map(|&(stride, count)| stride.saturating_mul(count - 1));
        ByteRange { address: self.address, size_bytes: steps.fold(run, u64::saturating_add) }
    }
}

/// More pieces than a tensor of a real model has; a damaged record may claim any number.
pub const RANGES_MAX: u64 = 1 << 20;

fn push_ranges(ranges: &mut Vec<ByteRange>, address: u64, size_bytes: u64, outer: &[(u64, u64)]) {
    match outer.split_last() {
        None => ranges.push(ByteRange { address, size_bytes }),
        Some((&(stride, count), inner)) => {
            for step in 0..count {
                push_ranges(ranges, address.saturating_add(step.saturating_mul(stride)), size_bytes, inner);
            }
        }
    }
}

/// Sorts ranges and joins those that touch or overlap.
pub fn join(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    if ranges.len() < 2 {
        return ranges;
    }
    if !ranges.is_sorted_by_key(|range| range.address) {
        ranges.sort_unstable_by_key(|range| range.address);
    }
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.address <= last.end() => {
                last.size_bytes = range.end().max(last.end()) - last.address;
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(ne: [u64; 4], nb: [u64; 4]) -> Layout {
        Layout { address: 1000, row_bytes: ne[0] * 2, is_dense: nb[0] == 2, ne, nb, block_bytes: 2 }
    }

    #[test]
    fn a_dense_tensor_is_one_range_in_any_order_of_its_dimensions() {
        let whole = vec![ByteRange { address: 1000, size_bytes: 2 * 4 * 3 * 5 }];
        assert_eq!(layout([4, 3, 5, 1], [2, 8, 24, 120]).ranges(), whole);
        assert_eq!(layout([4, 5, 3, 1], [2, 24, 8, 120]).ranges(), whole);
        assert_eq!(layout([5, 4, 3, 1], [24, 2, 8, 120]).ranges(), whole);
    }

    #[test]
    fn a_view_of_some_rows_is_one_range_per_gap() {
        let rows = layout([4, 3, 1, 1], [2, 32, 96, 96]).ranges();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2], ByteRange { address: 1064, size_bytes: 8 });
    }

    #[test]
    fn an_empty_tensor_has_no_bytes() {
        assert!(layout([4, 0, 1, 1], [2, 8, 8, 8]).ranges().is_empty());
    }

    proptest! {
        #[test]
        fn ranges_cover_exactly_the_bytes_of_the_elements(
            ne in prop::array::uniform4(1u64..4),
            nb in (0u64..3, 0u64..20, 0u64..40, 0u64..80),
        ) {
            let nb = [2 + nb.0 * 2, nb.1, nb.2, nb.3];
            let mut expected = std::collections::BTreeSet::new();
            for i3 in 0..ne[3] { for i2 in 0..ne[2] { for i1 in 0..ne[1] { for i0 in 0..ne[0] {
                let at = 1000 + i0 * nb[0] + i1 * nb[1] + i2 * nb[2] + i3 * nb[3];
                expected.extend([at, at + 1]);
            }}}}
            let ranges = layout(ne, nb).ranges();
            let covered: Vec<u64> = ranges.iter().flat_map(|range| range.address..range.end()).collect();
            prop_assert_eq!(covered, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
