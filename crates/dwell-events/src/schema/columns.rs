//! Columns from rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::ArrowPrimitiveType;

use super::TextBuilder;

/// A column of numbers; a row without one is missing in it.
pub fn numbers<T: ArrowPrimitiveType, Row>(rows: &[Row], value: impl Fn(&Row) -> Option<T::Native>) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows.len());
    rows.iter().for_each(|row| builder.append_option(value(row)));
    Arc::new(builder.finish())
}

/// A column of text with few distinct values.
pub fn words<Row>(rows: &[Row], value: fn(&Row) -> &str) -> ArrayRef {
    let mut builder = TextBuilder::new();
    rows.iter().for_each(|row| builder.append_value(value(row)));
    Arc::new(builder.finish())
}

/// The same where some rows have none.
pub fn optional_words<Row>(rows: &[Row], value: fn(&Row) -> Option<&str>) -> ArrayRef {
    let mut builder = TextBuilder::new();
    rows.iter().for_each(|row| builder.append_option(value(row)));
    Arc::new(builder.finish())
}
