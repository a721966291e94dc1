//! What the region map of the input says of its regions.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use dwell_events::schema::Table;
use dwell_label::rules::KnownRegion;
use dwell_store::{RunDir, open_table};

use crate::RunError;

/// Regions by id. A region map of mrm-trace has pages only, which the accesses tell better.
pub(super) fn read(input: &RunDir) -> Result<HashMap<u32, KnownRegion>, RunError> {
    let mut known = HashMap::new();
    if !input.table(Table::RegionMap).is_file() {
        return Ok(known);
    }
    for batch in open_table(input.path(), Table::RegionMap)? {
        let batch = batch?;
        known.extend((0..batch.num_rows()).filter_map(|row| region(&batch, row)));
    }
    Ok(known)
}

fn region(batch: &RecordBatch, row: usize) -> Option<(u32, KnownRegion)> {
    let region = KnownRegion {
        address: number::<UInt64Type>(batch, "address", row)?,
        size_bytes: number::<UInt64Type>(batch, "size_bytes", row)?,
        tensor: text(batch, "tensor", row)?.to_owned(),
        layer: number::<UInt16Type>(batch, "layer", row),
        origin: known_origin(text(batch, "origin", row)?),
        file_offset: number::<UInt64Type>(batch, "file_offset", row),
        freed_ns: number::<UInt64Type>(batch, "freed_ns", row),
    };
    let id = number::<Int64Type>(batch, "region_id", row)?;
    Some((u32::try_from(id).ok()?, region))
}

fn known_origin(name: &str) -> &'static str {
    ["mapped", "copied", "repacked", "computed"].into_iter().find(|known| *known == name).unwrap_or("unknown")
}

fn number<T: ArrowPrimitiveType>(batch: &RecordBatch, column: &str, row: usize) -> Option<T::Native> {
    let column = batch.column_by_name(column)?.as_primitive_opt::<T>()?;
    column.is_valid(row).then(|| column.value(row))
}

fn text<'a>(batch: &'a RecordBatch, column: &str, row: usize) -> Option<&'a str> {
    let column = batch.column_by_name(column)?.as_dictionary_opt::<Int32Type>()?;
    Some(column.values().as_string_opt::<i32>()?.value(column.key(row)?))
}
