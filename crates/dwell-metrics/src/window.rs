//! A picture of a part of a trace, finer than that of the whole.

use std::ops::Range;

use dwell_analysis::overview::{Overview, OverviewBuilder};
use dwell_events::schema::Table;
use dwell_store::{RunDir, open_table_window};

use crate::{MetricsError, failed, region_names};

/// What a part of a trace looks like.
#[derive(Clone, Debug)]
pub struct WindowDrawing {
    /// Rows that had to be looked at; those of the window are among them.
    pub rows_at_most: u64,
    /// The picture; none if there are more rows than were allowed.
    pub overview: Option<Overview>,
}

/// Draws the rows of a trace from `begin` up to but not including `end`, if at most so many have to be read.
pub fn draw_window(run: &RunDir, window_ns: Range<u64>, most_rows: u64) -> Result<WindowDrawing, MetricsError> {
    let rows = open_table_window(run.path(), Table::Trace, &OverviewBuilder::columns(), Some(window_ns))?;
    let rows_at_most = rows.rows_at_most();
    if rows_at_most > most_rows {
        return Ok(WindowDrawing { rows_at_most, overview: None });
    }
    let mut overview = OverviewBuilder::new(region_names::regions(run)?);
    for batch in rows {
        overview.push_rows(&batch?).map_err(failed(run))?;
    }
    Ok(WindowDrawing { rows_at_most, overview: Some(overview.finish_rows()) })
}
