//! What `region_map` calls the regions of a trace.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt16Type};
use dwell_analysis::RegionName;
use dwell_events::schema::Table;
use dwell_store::{RunDir, StoreError, number_at, open_table_subset, text_at};

const COLUMNS: [&str; 3] = ["region_id", "tensor", "layer"];

/// The names by region id. A run without the table, or whose table has ids alone as that of mrm-trace, has none.
pub(crate) fn read(run: &RunDir) -> Result<BTreeMap<u64, RegionName>, StoreError> {
    let mut names = BTreeMap::new();
    if run.table(Table::RegionMap).exists() {
        for batch in open_table_subset(run.path(), Table::RegionMap, &COLUMNS)? {
            let batch = batch?;
            names.extend((0..batch.num_rows()).filter_map(|row| named(&batch, row)));
        }
    }
    Ok(names)
}

fn named(batch: &RecordBatch, row: usize) -> Option<(u64, RegionName)> {
    let id = u64::try_from(number_at::<Int64Type>(batch, "region_id", row)?).ok()?;
    let tensor = text_at(batch, "tensor", row).filter(|tensor| !tensor.is_empty())?;
    let layer = number_at::<UInt16Type>(batch, "layer", row);
    Some((id, RegionName { tensor: Some(tensor.to_owned()), layer }))
}
