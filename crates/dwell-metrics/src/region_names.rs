//! What `region_map` calls the regions of a trace.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use dwell_analysis::RegionName;
use dwell_analysis::overview::OverviewRegion;
use dwell_events::schema::Table;
use dwell_store::{RunDir, StoreError, number_at, open_table_subset, text_at};

const COLUMNS: [&str; 5] = ["region_id", "region_type", "tensor", "layer", "size_bytes"];

/// The names by region id. A run without the table, or whose table has ids alone as that of mrm-trace, has none.
pub(crate) fn read(run: &RunDir) -> Result<BTreeMap<u64, RegionName>, StoreError> {
    let named = regions(run)?.into_iter().filter(|(_, region)| !region.tensor.is_empty());
    Ok(named.map(|(id, region)| (id, RegionName { tensor: Some(region.tensor), layer: region.layer })).collect())
}

/// The regions by id; none of a run without the table.
pub(crate) fn regions(run: &RunDir) -> Result<BTreeMap<u64, OverviewRegion>, StoreError> {
    let mut regions = BTreeMap::new();
    if run.table(Table::RegionMap).exists() {
        for batch in open_table_subset(run.path(), Table::RegionMap, &COLUMNS)? {
            let batch = batch?;
            regions.extend((0..batch.num_rows()).filter_map(|row| region(&batch, row)));
        }
    }
    Ok(regions)
}

fn region(batch: &RecordBatch, row: usize) -> Option<(u64, OverviewRegion)> {
    let id = u64::try_from(number_at::<Int64Type>(batch, "region_id", row)?).ok()?;
    let text = |column| text_at(batch, column, row).unwrap_or_default().to_owned();
    let region = OverviewRegion {
        region_type: text("region_type"),
        tensor: text("tensor"),
        layer: number_at::<UInt16Type>(batch, "layer", row),
        size_bytes: number_at::<UInt64Type>(batch, "size_bytes", row).unwrap_or(0),
    };
    Some((id, region))
}
