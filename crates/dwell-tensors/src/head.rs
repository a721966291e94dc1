//! What is known of a tensor besides its elements.

use dwell_codec::DType;

/// One tensor as its producer hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorHead {
    /// Where in the model it comes from, such as `model.layers.3` or `l_out-3`.
    pub name: String,
    /// The layer, where the name has one.
    pub layer: Option<i32>,
    /// The forward pass: 0 is the prompt, n the n-th decoded token.
    pub step: u64,
    /// How many tokens had been recorded before it was computed; `None` where tokens are not tracked.
    pub token_index: Option<u64>,
    /// When it was handed over, CLOCK_MONOTONIC.
    pub timestamp_ns: i64,
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions, outermost first; empty for a single number.
    pub shape: Vec<u64>,
}

impl TensorHead {
    /// Bytes of its elements; `None` if no memory could hold them.
    pub fn raw_bytes(&self) -> Option<u64> {
        raw_bytes_of(self.dtype, &self.shape)
    }

    /// Elements of the last dimension; 1 for a single number.
    pub(crate) fn row_length(&self) -> usize {
        self.shape.last().map_or(1, |&length| length as usize)
    }
}

/// Bytes of the elements of a tensor of this type and shape; `None` if no memory could hold them.
pub(crate) fn raw_bytes_of(dtype: DType, shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let elements = shape.iter().try_fold(1_u64, |product, &length| product.checked_mul(length))?;
    elements.checked_mul(dtype.size_bytes() as u64)
}

/// A token boundary: every tensor before it belongs to this token or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TokenMark {
    /// 0 is the first recorded token.
    pub token_index: u64,
    /// The id in the model's vocabulary.
    pub token_id: i64,
    /// The text of it, as far as it is known.
    pub token_text: String,
    /// The number that the next packet after the boundary gets.
    pub packet: u64,
    /// When it was recorded, CLOCK_MONOTONIC.
    pub timestamp_ns: i64,
}
