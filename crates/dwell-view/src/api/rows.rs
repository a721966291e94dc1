//! `/rows`: rows of a table by their time, as Arrow.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use axum::extract::{RawQuery, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dwell_collectors::tables;
use dwell_events::schema::Table;
use dwell_store::open_table_window;

use super::App;
use crate::error::ApiError;
use crate::params::Params;

/// Rows of an answer, if the client does not say.
const USUAL_ROWS: u64 = 1_000;
/// Rows of an answer at most.
const MOST_ROWS: u64 = 100_000;

/// Rows of the answer.
const ROWS: HeaderName = HeaderName::from_static("dwell-rows");
/// Whether there are more.
const MORE: HeaderName = HeaderName::from_static("dwell-more");

pub(super) async fn get(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let request = Request::of(query.as_deref())?;
    let (desk, worker) = (&app.desk, app.clone());
    let rows = desk.work(move || request.read(&worker)).await?;
    let (count, more) = (rows.count.to_string(), rows.has_more.to_string());
    let headers = [(CONTENT_TYPE, "application/vnd.apache.arrow.stream".to_owned()), (ROWS, count), (MORE, more)];
    Ok((headers, desk.send(rows.stream).await?).into_response())
}

/// Which rows are wanted.
struct Request {
    run: String,
    table: Table,
    columns: Vec<String>,
    window_ns: Option<Range<u64>>,
    limit: u64,
}

/// Rows as an Arrow stream.
struct Rows {
    stream: Bytes,
    count: u64,
    has_more: bool,
}

impl Request {
    fn of(query: Option<&str>) -> Result<Self, ApiError> {
        let params = Params::of(query, &["run", "table", "begin_ns", "end_ns", "limit", "columns"])?;
        let columns = params.optional("columns")?.into_iter().flat_map(|names| names.split(','));
        let limit = params.number("limit")?.unwrap_or(USUAL_ROWS);
        if limit > MOST_ROWS {
            return Err(ApiError::bad_request(format!(
                "limit is {limit}, and at most {MOST_ROWS} rows are sent at once"
            ))
            .hint("read the Parquet file of the table for more"));
        }
        let window_ns = match (params.number("begin_ns")?, params.number("end_ns")?) {
            (None, None) => None,
            (begin_ns, end_ns) => Some(begin_ns.unwrap_or(0)..end_ns.unwrap_or(u64::MAX)),
        };
        Ok(Self {
            run: params.required("run")?.to_owned(),
            table: table_named(params.optional("table")?.unwrap_or(Table::Trace.name()))?,
            columns: columns.map(str::to_owned).collect(),
            window_ns,
            limit,
        })
    }

    fn read(self, app: &App) -> Result<Rows, ApiError> {
        let run = app.run(&self.run)?;
        if !run.dir().table(self.table).exists() {
            return Err(ApiError::not_found(format!("this run has no table {}", self.table.name())));
        }
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let window = open_table_window(run.dir().path(), self.table, &columns, self.window_ns)?;
        let schema = window.schema();
        if let Some(missing) = columns.iter().find(|name| schema.index_of(name).is_err()) {
            return Err(ApiError::bad_request(format!("the table {} has no column {missing:?}", self.table.name())));
        }
        let (mut batches, mut count, mut has_more) = (Vec::new(), 0, false);
        for batch in window {
            let batch = batch?;
            let room = self.limit - count;
            has_more = batch.num_rows() as u64 > room;
            let taken = batch.slice(0, room.min(batch.num_rows() as u64) as usize);
            count += taken.num_rows() as u64;
            batches.push(taken);
            if has_more {
                break;
            }
        }
        let stream = arrow_stream(&schema, &batches);
        let stream = stream.map_err(|error| ApiError::unreadable(format!("writing rows failed: {error}")))?;
        Ok(Rows { stream: stream.into(), count, has_more })
    }
}

/// The table of a name.
fn table_named(name: &str) -> Result<Table, ApiError> {
    let tables = tables();
    let names = || tables.iter().map(|table| table.name()).collect::<Vec<_>>().join(", ");
    let found = tables.iter().find(|table| table.name() == name).copied();
    found.ok_or_else(|| {
        ApiError::not_found(format!("no table is named {name:?}")).hint(format!("tables are {}", names()))
    })
}

fn arrow_stream(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.into_inner()
}
