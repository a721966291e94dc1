//! What the region map of the input says of its regions.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use dwell_events::schema::Table;
use dwell_label::regions::KnownRegion;
use dwell_store::{RunDir, number_at, open_table, text_at};

use crate::BuildError;

/// Regions by id. A region map of mrm-trace has pages only, which the accesses tell better.
pub(super) fn read(input: &RunDir) -> Result<HashMap<u32, KnownRegion>, BuildError> {
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
        address: number_at::<UInt64Type>(batch, "address", row)?,
        size_bytes: number_at::<UInt64Type>(batch, "size_bytes", row)?,
        tensor: text_at(batch, "tensor", row)?.to_owned(),
        layer: number_at::<UInt16Type>(batch, "layer", row),
        origin: known_origin(text_at(batch, "origin", row)?),
        file_offset: number_at::<UInt64Type>(batch, "file_offset", row),
        freed_ns: number_at::<UInt64Type>(batch, "freed_ns", row),
    };
    let id = number_at::<Int64Type>(batch, "region_id", row)?;
    Some((u32::try_from(id).ok()?, region))
}

fn known_origin(name: &str) -> &'static str {
    ["mapped", "copied", "repacked", "computed"].into_iter().find(|known| *known == name).unwrap_or("unknown")
}
