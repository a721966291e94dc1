//! The lives of KV blocks, for the picture of a run.

use dwell_analysis::overview::{KV_MAP_COLUMNS, KvExtent, KvMap, KvMapBuilder, Overview};
use dwell_events::schema::Table;
use dwell_store::{RunDir, open_table_subset};

use crate::{MetricsError, failed};

/// The map; none if the run has no KV blocks. The table is read twice: first for how far it reaches.
pub(crate) fn draw(run: &RunDir, overview: &Overview) -> Result<Option<KvMap>, MetricsError> {
    if !run.table(Table::KvBlockLifecycle).exists() {
        return Ok(None);
    }
    let blocks = || open_table_subset(run.path(), Table::KvBlockLifecycle, &KV_MAP_COLUMNS);
    let mut extent = KvExtent::of_trace(overview.first_ns, overview.last_ns);
    for batch in blocks()? {
        extent.push(&batch?).map_err(failed(run))?;
    }
    let Some(mut map) = KvMapBuilder::new(&extent) else { return Ok(None) };
    for batch in blocks()? {
        map.push(&batch?).map_err(failed(run))?;
    }
    Ok(Some(map.finish()))
}
