//! Columns of a batch, whatever integer width or text encoding a file gave them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::AnalysisError;

/// The column, or an error that names it and its table.
pub(crate) fn required<'a>(
    batch: &'a RecordBatch,
    table: &'static str,
    column: &'static str,
) -> Result<&'a ArrayRef, AnalysisError> {
    batch.column_by_name(column).ok_or(AnalysisError::MissingColumn { table, column })
}

/// A column of whole numbers, zero or more.
pub(crate) struct Numbers {
    values: ScalarBuffer<u64>,
    nulls: Option<NullBuffer>,
}

impl Numbers {
    pub(crate) fn new(array: &ArrayRef, column: &'static str) -> Result<Self, AnalysisError> {
        let values = match array.data_type() {
            DataType::UInt64 => array.as_primitive::<UInt64Type>().values().clone(),
            DataType::UInt32 => widen::<UInt32Type>(array),
            DataType::UInt16 => widen::<UInt16Type>(array),
            DataType::UInt8 => widen::<UInt8Type>(array),
            DataType::Int64 => widen_signed::<Int64Type>(array, column)?,
            DataType::Int32 => widen_signed::<Int32Type>(array, column)?,
            DataType::Int16 => widen_signed::<Int16Type>(array, column)?,
            DataType::Int8 => widen_signed::<Int8Type>(array, column)?,
            // What pandas writes for a column without any value.
            DataType::Null => vec![0; array.len()].into(),
            found => {
                let expected = "a whole number";
                return Err(AnalysisError::ColumnType { column, expected, found: found.to_string() });
            }
        };
        Ok(Self { values, nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    /// The values of a column that may not have nulls.
    pub(crate) fn without_nulls(self, column: &'static str) -> Result<ScalarBuffer<u64>, AnalysisError> {
        match &self.nulls {
            Some(nulls) => {
                let row = nulls.iter().position(|is_valid| !is_valid).unwrap_or(0);
                Err(AnalysisError::NullValue { column, row })
            }
            None => Ok(self.values),
        }
    }

    pub(crate) fn get(&self, row: usize) -> Option<u64> {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.values[row]),
        }
    }
}

fn widen<T: ArrowPrimitiveType<Native: Into<u64>>>(array: &ArrayRef) -> ScalarBuffer<u64> {
    array.as_primitive::<T>().values().iter().map(|&value| value.into()).collect()
}

fn widen_signed<T>(array: &ArrayRef, column: &'static str) -> Result<ScalarBuffer<u64>, AnalysisError>
where
    T: ArrowPrimitiveType<Native: Into<i64>>,
{
    let array = array.as_primitive::<T>();
    // The slot of a null may hold anything, so only values that are there are judged.
    let is_negative = |row: &usize| array.is_valid(*row) && array.value(*row).into() < 0;
    match (0..array.len()).find(is_negative) {
        Some(row) => Err(AnalysisError::NegativeValue { column, row, value: array.value(row).into() }),
        None => Ok(array.values().iter().map(|&value| value.into() as u64).collect()),
    }
}

/// Turns each text of a column into what it stands for.
pub(crate) fn texts<T: Copy>(
    array: &ArrayRef,
    column: &'static str,
    resolve: impl FnMut(Option<&str>) -> Result<T, AnalysisError>,
) -> Result<Vec<T>, AnalysisError> {
    match array.data_type() {
        DataType::Utf8 => resolve_rows(array.as_string::<i32>().iter(), resolve),
        DataType::LargeUtf8 => resolve_rows(array.as_string::<i64>().iter(), resolve),
        DataType::Utf8View => resolve_rows(array.as_string_view().iter(), resolve),
        DataType::Null => resolve_rows(std::iter::repeat_n(None, array.len()), resolve),
        DataType::Dictionary(_, values) => match **values {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => resolve_dictionary(array, resolve),
            _ => Err(not_text(column, array.data_type())),
        },
        found => Err(not_text(column, found)),
    }
}

fn not_text(column: &'static str, found: &DataType) -> AnalysisError {
    AnalysisError::ColumnType { column, expected: "text", found: found.to_string() }
}

/// Resolves a text only where it differs from the last one of its kind: of the same length and first letter.
fn resolve_rows<'a, T: Copy>(
    rows: impl ExactSizeIterator<Item = Option<&'a str>>,
    mut resolve: impl FnMut(Option<&str>) -> Result<T, AnalysisError>,
) -> Result<Vec<T>, AnalysisError> {
    const KINDS: usize = 16;
    let mut resolved = Vec::with_capacity(rows.len());
    let mut recent: [Option<(&str, T)>; KINDS] = [None; KINDS];
    for text in rows {
        let Some(text) = text else {
            resolved.push(resolve(None)?);
            continue;
        };
        let kind = (text.len() ^ usize::from(text.as_bytes().first().copied().unwrap_or(0))) % KINDS;
        let meaning = match recent[kind] {
            Some((known, meaning)) if known == text => meaning,
            _ => resolve(Some(text))?,
        };
        recent[kind] = Some((text, meaning));
        resolved.push(meaning);
    }
    Ok(resolved)
}

fn resolve_dictionary<T: Copy>(
    array: &ArrayRef,
    resolve: impl FnMut(Option<&str>) -> Result<T, AnalysisError>,
) -> Result<Vec<T>, AnalysisError> {
    let dictionary = array.as_any_dictionary();
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(keys) = dictionary.keys().as_primitive_opt::<Int32Type>() {
        // How tables of runs are read: no key has to be converted first.
        let keys = keys.values().iter().map(|&key| key as usize);
        return resolve_keys(keys, nulls.as_ref(), dictionary.values(), resolve);
    }
    // Keys cannot be read where there is no entry to refer to: every row is then null.
    let keys = if dictionary.values().is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    resolve_keys(keys.into_iter(), nulls.as_ref(), dictionary.values(), resolve)
}

/// Resolves each dictionary entry when a row first refers to it; entries that no row refers to do not count. The key of
/// a null may be any.
fn resolve_keys<T: Copy>(
    keys: impl ExactSizeIterator<Item = usize>,
    nulls: Option<&NullBuffer>,
    values: &ArrayRef,
    mut resolve: impl FnMut(Option<&str>) -> Result<T, AnalysisError>,
) -> Result<Vec<T>, AnalysisError> {
    let mut entries: Vec<Option<T>> = vec![None; values.len()];
    let mut resolved = Vec::with_capacity(keys.len());
    for (row, key) in keys.enumerate() {
        resolved.push(match entries.get(key) {
            _ if nulls.is_some_and(|nulls| nulls.is_null(row)) => resolve(None)?,
            Some(Some(meaning)) => *meaning,
            _ => *entries[key].insert(resolve(text_at(values, key))?),
        });
    }
    Ok(resolved)
}

fn text_at(values: &ArrayRef, row: usize) -> Option<&str> {
    match values.data_type() {
        DataType::Utf8 => Some(values.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(values.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(values.as_string_view().value(row)),
        _ => None,
    }
}
