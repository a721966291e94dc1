//! The tensor types of ggml: how many values a block has and how many bytes it takes.

use std::fmt;

/// A tensor type that a GGUF file can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GgmlType {
    /// Number of the type in the file.
    pub id: u32,
    /// Name that ggml gives it.
    pub name: &'static str,
    /// Values in a block; rows are whole blocks.
    pub block_values: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
}

const fn ggml_type(id: u32, name: &'static str, block_values: u64, block_bytes: u64) -> GgmlType {
    GgmlType { id, name, block_values, block_bytes }
}

impl GgmlType {
    /// 32-bit floats.
    pub const F32: GgmlType = ggml_type(0, "f32", 1, 4);
    /// 16-bit floats.
    pub const F16: GgmlType = ggml_type(1, "f16", 1, 2);
    /// 4 bits and a scale.
    pub const Q4_0: GgmlType = ggml_type(2, "q4_0", 32, 18);
    /// 4 bits, a scale and a minimum.
    pub const Q4_1: GgmlType = ggml_type(3, "q4_1", 32, 20);
    /// 8 bits and a scale.
    pub const Q8_0: GgmlType = ggml_type(8, "q8_0", 32, 34);
    /// 4 bits in super-blocks of 8 blocks, with 6-bit scales and minima.
    pub const Q4_K: GgmlType = ggml_type(12, "q4_K", 256, 144);

    /// Every type that is in use, by number. Numbers that are left out were withdrawn from ggml.
    pub const ALL: [GgmlType; 35] = [
        Self::F32,
        Self::F16,
        Self::Q4_0,
        Self::Q4_1,
        ggml_type(6, "q5_0", 32, 22),
        ggml_type(7, "q5_1", 32, 24),
        Self::Q8_0,
        ggml_type(9, "q8_1", 32, 36),
        ggml_type(10, "q2_K", 256, 84),
        ggml_type(11, "q3_K", 256, 110),
        Self::Q4_K,
        ggml_type(13, "q5_K", 256, 176),
        ggml_type(14, "q6_K", 256, 210),
        ggml_type(15, "q8_K", 256, 292),
        ggml_type(16, "iq2_xxs", 256, 66),
        ggml_type(17, "iq2_xs", 256, 74),
        ggml_type(18, "iq3_xxs", 256, 98),
        ggml_type(19, "iq1_s", 256, 50),
        ggml_type(20, "iq4_nl", 32, 18),
        ggml_type(21, "iq3_s", 256, 110),
        ggml_type(22, "iq2_s", 256, 82),
        ggml_type(23, "iq4_xs", 256, 136),
        ggml_type(24, "i8", 1, 1),
        ggml_type(25, "i16", 1, 2),
        ggml_type(26, "i32", 1, 4),
        ggml_type(27, "i64", 1, 8),
        ggml_type(28, "f64", 1, 8),
        ggml_type(29, "iq1_m", 256, 56),
        ggml_type(30, "bf16", 1, 2),
        ggml_type(34, "tq1_0", 256, 54),
        ggml_type(35, "tq2_0", 256, 66),
        ggml_type(39, "mxfp4", 32, 17),
        ggml_type(40, "nvfp4", 64, 36),
        ggml_type(41, "q1_0", 128, 18),
        ggml_type(42, "q2_0", 64, 18),
    ];

    /// The type with this number, or `None` if ggml has none.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        Self::ALL.into_iter().find(|known| known.id == id)
    }

    /// Bytes of a row of this many values, or `None` if it is not a whole number of blocks or too large.
    pub fn row_bytes(self, values: u64) -> Option<u64> {
        if !values.is_multiple_of(self.block_values) {
            return None;
        }
        (values / self.block_values).checked_mul(self.block_bytes)
    }

    /// Bytes of a tensor with these dimensions, the row first; `None` as for [`row_bytes`](Self::row_bytes).
    pub fn tensor_bytes(self, dimensions: &[u64]) -> Option<u64> {
        let (&row, rest) = dimensions.split_first().unwrap_or((&1, &[]));
        rest.iter().try_fold(self.row_bytes(row)?, |bytes, &dimension| bytes.checked_mul(dimension))
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_the_order_of_their_numbers_and_have_names_of_their_own() {
        for (index, pair) in GgmlType::ALL.windows(2).enumerate() {
            assert!(pair[0].id < pair[1].id, "at {index}");
        }
        let names: std::collections::BTreeSet<_> = GgmlType::ALL.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), GgmlType::ALL.len());
    }

    #[test]
    fn withdrawn_and_unknown_numbers_have_no_type() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(GgmlType::from_id(id), None, "{id}");
        }
    }

    #[test]
    fn a_tensor_takes_its_rows_in_whole_blocks() {
        assert_eq!(GgmlType::Q4_0.tensor_bytes(&[64, 3, 2]), Some(2 * 18 * 3 * 2));
        assert_eq!(GgmlType::Q4_K.tensor_bytes(&[512, 10]), Some(2 * 144 * 10));
        assert_eq!(GgmlType::Q8_0.tensor_bytes(&[48, 3]), None);
        assert_eq!(GgmlType::F32.tensor_bytes(&[]), Some(4));
        assert_eq!(GgmlType::F32.tensor_bytes(&[u64::MAX, 2]), None);
    }
}
