//! The columns of tables that others wrote, in the types of ours.
//!
//! arrow's own cast converts from every type to every other; its kernels took a sixth of the time of a first build, for
//! the few conversions here.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, PrimitiveArray, RecordBatch, UInt32Array, UInt64Array, downcast_integer_array, new_null_array,
};
use arrow_schema::{DataType, Field, SchemaRef};
use dwell_events::schema::trace;
use dwell_events::{PAGE_SHIFT, RegionType};
use dwell_store::StoreError;

/// What stands for a period that nobody stated: such rows are not taken as all that there were.
const PERIOD_NOT_STATED: u64 = 0;

/// The batch with the columns of `trace`. Columns that only the file has are left out; columns that it lacks say as
/// much as is known.
pub(crate) fn trace_as_ours(
    batch: &RecordBatch,
    run_id: &str,
    first_row: u64,
    path: &Path,
) -> Result<RecordBatch, StoreError> {
    as_ours(batch, trace::schema(), path, |field| stand_in(batch, field, run_id, first_row))
}

/// The batch with these columns; those that it lacks, or that hold nothing, are what `stand_in` says.
pub(crate) fn as_ours(
    batch: &RecordBatch,
    schema: SchemaRef,
    path: &Path,
    stand_in: impl Fn(&Field) -> Result<ArrayRef, String>,
) -> Result<RecordBatch, StoreError> {
    let convert = |field: &Arc<Field>| {
        let found = batch.column_by_name(field.name()).filter(|column| *column.data_type() != DataType::Null);
        let column = match found {
            Some(column) => converted(column, field),
            None => stand_in(field),
        };
        column.map_err(|reason| unfit(reason, path))
    };
    let columns = schema.fields().iter().map(convert).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns).map_err(|error| unfit(error.to_string(), path))
}

pub(crate) fn unfit(reason: String, path: &Path) -> StoreError {
    StoreError::UnfitBatch { action: "reading a table of another program", reason, path: path.to_owned() }
}

fn converted(column: &ArrayRef, field: &Field) -> Result<ArrayRef, String> {
    let column = cast(column, field.name(), field.data_type())?;
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
        "address_page" => address_pages(batch)?,
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

fn address_pages(batch: &RecordBatch) -> Result<ArrayRef, String> {
    let addresses = batch.column_by_name("address").ok_or("column address is missing")?;
    let addresses = cast(addresses, "address", &DataType::UInt64)?;
    let pages = addresses.as_primitive::<UInt64Type>().unary::<_, UInt64Type>(|address| address >> PAGE_SHIFT);
    Ok(Arc::new(pages))
}

/// The column in a type of ours: whole numbers in another width if every value fits, text in another form.
fn cast(column: &ArrayRef, name: &str, wanted: &DataType) -> Result<ArrayRef, String> {
    let found = column.data_type();
    if found == wanted {
        return Ok(column.clone());
    }
    let converted = match wanted {
        DataType::Dictionary(_, _) => words(column),
        DataType::UInt8 => whole_numbers::<UInt8Type>(column),
        DataType::UInt16 => whole_numbers::<UInt16Type>(column),
        DataType::UInt32 => whole_numbers::<UInt32Type>(column),
        DataType::UInt64 => whole_numbers::<UInt64Type>(column),
        DataType::Int64 => whole_numbers::<Int64Type>(column),
        _ => Err(String::new()),
    };
    converted.map_err(|reason| format!("column {name} has type {found}, and {wanted} was needed{reason}"))
}

/// Whole numbers in another width. A value that does not fit is refused, it does not become a missing one.
fn whole_numbers<T>(column: &ArrayRef) -> Result<ArrayRef, String>
where
    T: ArrowPrimitiveType<Native: TryFrom<i128>>,
{
    let values: Vec<Option<i128>> = downcast_integer_array!(
        column => column.iter().map(|value| value.map(i128::from)).collect(),
        _ => return Err(String::new())
    );
    let fitted = |value: Option<i128>| match value {
        Some(value) => T::Native::try_from(value).map(Some).map_err(|_| format!(": {value} does not fit")),
        None => Ok(None),
    };
    Ok(Arc::new(values.into_iter().map(fitted).collect::<Result<PrimitiveArray<T>, _>>()?))
}

fn words(column: &ArrayRef) -> Result<ArrayRef, String> {
    match column.data_type() {
        DataType::Utf8 => Ok(dictionary(column.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Ok(dictionary(column.as_string::<i64>().iter())),
        DataType::Utf8View => Ok(dictionary(column.as_string_view().iter())),
        _ => Err(String::new()),
    }
}

fn dictionary<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    texts.for_each(|text| builder.append_option(text));
    Arc::new(builder.finish())
}

pub(crate) fn repeated(value: &str, rows: usize) -> ArrayRef {
    dictionary(std::iter::repeat_n(Some(value), rows))
}

fn filled(column: &ArrayRef, default: &str) -> ArrayRef {
    let column = column.as_dictionary::<Int32Type>();
    let words = column.values().as_string::<i32>();
    let texts = column.keys().iter().map(|key| key.map_or(Some(default), |key| Some(words.value(key as usize))));
    dictionary(texts)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, LargeStringArray, StringViewArray};
    use arrow_schema::Schema;

    use super::*;

    /// A trace as others write it: signed numbers, plain text.
    fn foreign(addresses: ArrayRef, op_types: ArrayRef) -> RecordBatch {
        let times: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let columns = [("timestamp_ns", times), ("address", addresses), ("op_type", op_types)];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }

    fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
        let words = batch.column_by_name(column).expect("a column of ours").as_dictionary::<Int32Type>();
        let words = words.downcast_dict::<arrow_array::StringArray>().expect("words are strings");
        words.into_iter().map(|word| word.unwrap_or("(missing)").to_owned()).collect()
    }

    #[test]
    fn whole_numbers_and_text_of_any_width_become_ours() {
        let addresses = Arc::new(Int64Array::from(vec![0x1008, 0x5000]));
        for op_types in [
            Arc::new(LargeStringArray::from(vec!["load", "store"])) as ArrayRef,
            Arc::new(StringViewArray::from(vec!["load", "store"])),
        ] {
            let ours = trace_as_ours(&foreign(addresses.clone(), op_types), "run", 7, Path::new("t")).expect("it fits");
            assert_eq!(ours.schema(), trace::schema());
            let numbers =
                |name: &str| ours.column_by_name(name).map(|column| column.as_primitive::<UInt64Type>().clone());
            assert_eq!(numbers("address_page"), Some(UInt64Array::from(vec![1, 5])));
            assert_eq!(numbers("sample_id"), Some(UInt64Array::from(vec![7, 8])));
            assert_eq!(numbers("period"), Some(UInt64Array::from(vec![PERIOD_NOT_STATED; 2])));
            assert_eq!(texts(&ours, "op_type"), ["load", "store"]);
            assert_eq!(texts(&ours, "region_type"), ["unknown", "unknown"]);
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_by_its_column() {
        let op_types: ArrayRef = Arc::new(LargeStringArray::from(vec!["load", "store"]));
        let refusal = |addresses: ArrayRef| {
            trace_as_ours(&foreign(addresses, op_types.clone()), "run", 0, Path::new("t"))
                .expect_err("unfit")
                .to_string()
        };
        let negative = refusal(Arc::new(Int64Array::from(vec![5, -1])));
        assert!(negative.contains("column address has type Int64, and UInt64 was needed"), "{negative}");
        let fraction = refusal(Arc::new(Float64Array::from(vec![1.0, 2.0])));
        assert!(fraction.contains("column address has type Float64, and UInt64 was needed"), "{fraction}");
        let missing = refusal(Arc::new(Int64Array::from(vec![Some(5), None])));
        assert!(missing.contains("column address lacks values"), "{missing}");
    }

    #[test]
    fn a_trace_without_addresses_is_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("timestamp_ns", DataType::UInt64, false)]));
        let error =
            trace_as_ours(&RecordBatch::new_empty(schema), "run", 0, Path::new("t")).expect_err("unfit").to_string();
        assert!(error.contains("column address is missing"), "{error}");
    }
}
