//! How elements are divided into vectors, and vectors into blocks.

use crate::plane::BLOCK_ELEMENTS;

/// Parts that a row is divided into at most, for each that it must have.
const MOST_PARTS: usize = 16;

/// Elements of a vector: a row, which is the last dimension. A row that is longer than a block is divided into equal
/// parts; where it has none, blocks are vectors.
pub(super) fn vector_len(row_len: usize) -> usize {
    let row_len = row_len.max(1);
    let least_parts = row_len.div_ceil(BLOCK_ELEMENTS);
    let parts = (least_parts..=least_parts.saturating_mul(MOST_PARTS)).find(|parts| row_len.is_multiple_of(*parts));
    parts.map_or(BLOCK_ELEMENTS, |parts| row_len / parts)
}

/// Elements of a block: as many whole vectors as have a place in one.
pub(super) fn block_len(vector_len: usize) -> usize {
    BLOCK_ELEMENTS / vector_len * vector_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_divided_evenly() {
        for (row_len, expected) in [(0, 1), (1, 1), (576, 576), (65_536, 65_536), (128_256, 64_128), (151_936, 37_984)]
        {
            assert_eq!(vector_len(row_len), expected);
        }
        // A prime has no parts.
        assert_eq!(vector_len(65_537), BLOCK_ELEMENTS);
        assert_eq!((block_len(1), block_len(576), block_len(40_000)), (65_536, 65_088, 40_000));
    }
}
