//! Metadata from which no shape follows, and shapes from which no size follows.

use dwell_events::Hint;
use dwell_events::engine::KvType;
use thiserror::Error;

/// A file whose shape or sizes cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A key that every model has is not there.
    #[error("reading the shape: key '{key}' is missing")]
    MissingKey {
        /// The key.
        key: String,
    },

    /// A key has a value of another kind.
    #[error("reading the shape: key '{key}' is {found}, needed {needed}")]
    WrongType {
        /// The key.
        key: String,
        /// Type of its value.
        found: String,
        /// Values that it can have.
        needed: &'static str,
    },

    /// A number is out of range.
    #[error("reading the shape: key '{key}' is {found}, needed {least} to {most}")]
    OutOfRange {
        /// The key.
        key: String,
        /// Its value.
        found: u64,
        /// Smallest possible value.
        least: u64,
        /// Largest possible value.
        most: u64,
    },

    /// A per-layer array has another length than there are layers.
    #[error("reading the shape: key '{key}' has {found} elements, needed one for each of {layers} layers")]
    WrongArrayLength {
        /// The key.
        key: String,
        /// Elements in the file.
        found: u64,
        /// Layers of the model.
        layers: u32,
    },

    /// The rows of a layer's keys or values are too long for llama.cpp.
    #[error("reading the shape: layer {layer} has rows of {row_values} {what}, needed fewer than 2^32")]
    RowTooLong {
        /// The layer.
        layer: usize,
        /// `keys` or `values`.
        what: &'static str,
        /// Length of the row.
        row_values: u64,
    },

    /// A row of the KV cache would end inside a block.
    #[error(
        "sizing the KV cache: layer {layer} has {unit}s of {found_values} {what}, needed a multiple of {} for {}",
        kv_type.block().0, kv_type.name()
    )]
    KvNotWholeBlocks {
        /// The layer.
        layer: usize,
        /// `row`, or `head` where the runtime needs whole heads.
        unit: &'static str,
        /// `keys` or `values`.
        what: &'static str,
        /// Length of the row or head.
        found_values: u64,
        /// Type of the cache.
        kv_type: KvType,
    },
}

impl Hint for ShapeError {
    fn hints(&self) -> Vec<String> {
        match self {
            ShapeError::KvNotWholeBlocks { .. } => vec!["use f16 for the KV cache of this model".to_owned()],
            _ => Vec::new(),
        }
    }
}
