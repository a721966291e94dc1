//! Columns that most sources leave empty.
//!
//! A missing value costs one addition: nulls are only counted until a value comes or the batch ends. The columns of
//! latency, cache level, NUMA node and processor are in every row of `trace`, and the sources that fill them are few.

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{DictionaryArray, PrimitiveArray};

use super::TextBuilder;

/// Numbers, most of them missing.
pub(super) struct SparseNumbers<T: ArrowPrimitiveType> {
    builder: PrimitiveBuilder<T>,
    pending_nulls: usize,
}

impl<T: ArrowPrimitiveType> SparseNumbers<T> {
    pub(super) fn new() -> Self {
        Self { builder: PrimitiveBuilder::new(), pending_nulls: 0 }
    }

    pub(super) fn push(&mut self, value: Option<T::Native>) {
        match value {
            None => self.pending_nulls += 1,
            Some(value) => {
                self.builder.append_nulls(std::mem::take(&mut self.pending_nulls));
                self.builder.append_value(value);
            }
        }
    }

    pub(super) fn finish(&mut self) -> PrimitiveArray<T> {
        self.builder.append_nulls(std::mem::take(&mut self.pending_nulls));
        self.builder.finish()
    }
}

/// Words, most of them missing.
pub(super) struct SparseText {
    builder: TextBuilder,
    pending_nulls: usize,
}

impl SparseText {
    pub(super) fn new() -> Self {
        Self { builder: TextBuilder::new(), pending_nulls: 0 }
    }

    pub(super) fn push(&mut self, value: Option<&str>) {
        match value {
            None => self.pending_nulls += 1,
            Some(value) => {
                self.builder.append_nulls(std::mem::take(&mut self.pending_nulls));
                self.builder.append_value(value);
            }
        }
    }

    pub(super) fn finish(&mut self) -> DictionaryArray<Int32Type> {
        self.builder.append_nulls(std::mem::take(&mut self.pending_nulls));
        self.builder.finish()
    }
}
