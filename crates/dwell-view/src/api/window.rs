//! `/window`: a part of a trace, finer than in the page.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use dwell_analysis::overview::Overview;
use dwell_metrics::draw_window;
use serde::Serialize;

use super::{App, FORMAT};
use crate::error::ApiError;
use crate::params::Params;

/// Rows that are read for a window at most, so that it is there within a third of a second.
const MOST_ROWS: u64 = 1_000_000;

#[derive(Serialize)]
struct Window {
    format: u32,
    begin_ns: u64,
    end_ns: u64,
    rows_at_most: u64,
    most_rows: u64,
    overview: Option<Overview>,
}

pub(super) async fn get(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let params = Params::of(query.as_deref(), &["run", "begin_ns", "end_ns"])?;
    let run = params.required("run")?.to_owned();
    let (begin_ns, end_ns) = (params.required_number("begin_ns")?, params.required_number("end_ns")?);
    params.window_ns()?;
    app.answer(move |app| {
        let drawn = draw_window(app.run(&run)?.dir(), begin_ns..end_ns, MOST_ROWS)?;
        let (rows_at_most, overview) = (drawn.rows_at_most, drawn.overview);
        Ok(Window { format: FORMAT, begin_ns, end_ns, rows_at_most, most_rows: MOST_ROWS, overview })
    })
    .await
}
