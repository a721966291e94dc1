//! Single values of a batch, whoever wrote it.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{Array, RecordBatch};

/// The number in a column; none if it is null, or if there is no such column of numbers.
pub fn number_at<T: ArrowPrimitiveType>(batch: &RecordBatch, column: &str, row: usize) -> Option<T::Native> {
    let column = batch.column_by_name(column)?.as_primitive_opt::<T>()?;
    column.is_valid(row).then(|| column.value(row))
}

/// The text in a column, dictionary-encoded or plain; none if it is null, or if there is no such column of texts.
pub fn text_at<'a>(batch: &'a RecordBatch, column: &str, row: usize) -> Option<&'a str> {
    let column = batch.column_by_name(column)?;
    match column.as_dictionary_opt::<Int32Type>() {
        Some(words) => Some(words.values().as_string_opt::<i32>()?.value(words.key(row)?)),
        None => column.as_string_opt::<i32>().filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::UInt64Type;
    use arrow_array::{ArrayRef, DictionaryArray, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn values_are_found_whatever_their_encoding_and_nulls_are_none() {
        let columns: [(&str, ArrayRef); 3] = [
            ("plain", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("words", Arc::new(DictionaryArray::<Int32Type>::from_iter([None, Some("b")]))),
            ("count", Arc::new(UInt64Array::from(vec![None, Some(7)]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!([text_at(&batch, "plain", 0), text_at(&batch, "plain", 1)], [Some("a"), None]);
        assert_eq!([text_at(&batch, "words", 0), text_at(&batch, "words", 1)], [None, Some("b")]);
        assert_eq!([0, 1].map(|row| number_at::<UInt64Type>(&batch, "count", row)), [None, Some(7)]);
        assert_eq!((text_at(&batch, "count", 1), number_at::<UInt64Type>(&batch, "plain", 0)), (None, None));
        assert_eq!(text_at(&batch, "absent", 0), None);
    }
}
