//! The columns of a trace, whoever wrote it, as those of ours.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field};
use dwell_events::schema::trace;
use dwell_events::{PAGE_SHIFT, RegionType};
use dwell_store::StoreError;

/// What stands for a period that nobody stated: such rows are not taken as all that there were.
const PERIOD_NOT_STATED: u64 = 0;

/// The batch with the columns of `trace`. Columns that only the file has are left out; columns that it lacks say as
/// much as is known.
pub(super) fn as_ours(
    batch: &RecordBatch,
    run_id: &str,
    first_row: u64,
    path: &Path,
) -> Result<RecordBatch, StoreError> {
    let convert = |field: &Arc<Field>| {
        let found = batch.column_by_name(field.name()).filter(|column| *column.data_type() != DataType::Null);
        let column = match found {
            Some(column) => converted(column, field),
            None => stand_in(batch, field, run_id, first_row),
        };
        column.map_err(|reason| unfit(reason, path))
    };
    let columns = trace::schema().fields().iter().map(convert).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(trace::schema(), columns).map_err(|error| unfit(error.to_string(), path))
}

pub(super) fn unfit(reason: String, path: &Path) -> StoreError {
    StoreError::UnfitBatch { action: "reading a trace to label", reason, path: path.to_owned() }
}

fn converted(column: &ArrayRef, field: &Field) -> Result<ArrayRef, String> {
    let column = if column.data_type() == field.data_type() {
        column.clone()
    } else {
        let (found, wanted) = (column.data_type(), field.data_type());
        let other = || format!("column {} has type {found}, and {wanted} was needed", field.name());
        match wanted {
            DataType::Dictionary(_, _) => text(column).ok_or_else(other)?,
            _ => integers(column).and_then(|values| narrowed(&values, wanted)).ok_or_else(other)?,
        }
    };
    if field.is_nullable() || column.logical_null_count() == 0 {
        return Ok(column);
    }
    match text_default(field.name()) {
        // mrm-trace lets a label be missing.
        Some(default) if matches!(column.data_type(), DataType::Dictionary(_, _)) => Ok(filled(&column, default)),
        _ => Err(format!("column {} lacks values", field.name())),
    }
}

/// What a column that is not there says.
fn stand_in(batch: &RecordBatch, field: &Field, run_id: &str, first_row: u64) -> Result<ArrayRef, String> {
    let rows = batch.num_rows();
    let same = |value: u64| -> ArrayRef { Arc::new(UInt64Array::from_value(value, rows)) };
    Ok(match field.name().as_str() {
        "run_id" => repeated(run_id, rows),
        "sample_id" => Arc::new(UInt64Array::from_iter_values((first_row..).take(rows))),
        "address_page" => address_pages(batch).ok_or("column address is missing or not of whole numbers")?,
        "region_id" => Arc::new(UInt32Array::from_value(0, rows)),
        "size_bytes" => same(1),
        "period" => same(PERIOD_NOT_STATED),
        name => match text_default(name) {
            Some(default) => repeated(default, rows),
            None if field.is_nullable() => new_null_array(field.data_type(), rows),
            None => return Err(format!("column {name} is missing")),
        },
    })
}

fn text_default(name: &str) -> Option<&'static str> {
    match name {
        "region_type" => Some(RegionType::Unknown.name()),
        "symbol" | "dso" | "tensor" | "source" => Some(""),
        _ => None,
    }
}

fn address_pages(batch: &RecordBatch) -> Option<ArrayRef> {
    let addresses = integers(batch.column_by_name("address")?)?;
    let pages: Vec<Option<i128>> = addresses.into_iter().map(|address| Some(address? >> PAGE_SHIFT)).collect();
    narrowed(&pages, &DataType::UInt64)
}

/// Whole numbers of any width.
fn integers(column: &ArrayRef) -> Option<Vec<Option<i128>>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(column: &ArrayRef) -> Option<Vec<Option<i128>>> {
        Some(column.as_primitive::<T>().iter().map(|value| value.map(Into::into)).collect())
    }
    match column.data_type() {
        DataType::UInt64 => of::<UInt64Type>(column),
        DataType::UInt32 => of::<UInt32Type>(column),
        DataType::UInt16 => of::<UInt16Type>(column),
        DataType::UInt8 => of::<UInt8Type>(column),
        DataType::Int64 => of::<Int64Type>(column),
        DataType::Int32 => of::<Int32Type>(column),
        DataType::Int16 => of::<Int16Type>(column),
        DataType::Int8 => of::<Int8Type>(column),
        _ => None,
    }
}

/// The numbers in the width of ours; none if one does not fit.
fn narrowed(values: &[Option<i128>], wanted: &DataType) -> Option<ArrayRef> {
    fn to<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(values: &[Option<i128>]) -> Option<ArrayRef> {
        let fit = |value: &Option<i128>| value.map(T::Native::try_from).transpose().ok();
        let values = values.iter().map(fit).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(PrimitiveArray::<T>::from_iter(values)))
    }
    match wanted {
        DataType::UInt64 => to::<UInt64Type>(values),
        DataType::UInt32 => to::<UInt32Type>(values),
        DataType::UInt16 => to::<UInt16Type>(values),
        DataType::UInt8 => to::<UInt8Type>(values),
        _ => None,
    }
}

fn text(column: &ArrayRef) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::Utf8 => Some(dictionary(column.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Some(dictionary(column.as_string::<i64>().iter())),
        DataType::Utf8View => Some(dictionary(column.as_string_view().iter())),
        _ => None,
    }
}

fn dictionary<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    texts.for_each(|text| builder.append_option(text));
    Arc::new(builder.finish())
}

fn repeated(value: &str, rows: usize) -> ArrayRef {
    dictionary(std::iter::repeat_n(Some(value), rows))
}

fn filled(column: &ArrayRef, default: &str) -> ArrayRef {
    let column = column.as_dictionary::<Int32Type>();
    let words = column.values().as_string::<i32>();
    let texts = column.keys().iter().map(|key| key.map_or(Some(default), |key| Some(words.value(key as usize))));
    dictionary(texts)
}
