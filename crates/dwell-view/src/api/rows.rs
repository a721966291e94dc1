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
/// Bytes of an answer at most, but for a single row that is longer. A row of a trace has about a hundred.
const MOST_BYTES: usize = 16 << 20;

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
        Ok(Self {
            run: params.required("run")?.to_owned(),
            table: table_named(params.optional("table")?.unwrap_or(Table::Trace.name()))?,
            columns: columns.map(str::to_owned).collect(),
            window_ns: params.window_ns()?,
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
        let mut answer = RowStream::new(&schema, self.limit).map_err(unwritten)?;
        for batch in window {
            if !answer.takes_all_of(&batch?).map_err(unwritten)? {
                break;
            }
        }
        answer.finish().map_err(unwritten)
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

fn unwritten(error: ArrowError) -> ApiError {
    ApiError::unreadable(format!("writing rows failed: {error}"))
}

/// An answer that is being written: it ends with the rows that were asked for, or where it is long enough.
struct RowStream {
    writer: StreamWriter<Vec<u8>>,
    limit: u64,
    count: u64,
    has_more: bool,
}

impl RowStream {
    fn new(schema: &SchemaRef, limit: u64) -> Result<Self, ArrowError> {
        Ok(Self { writer: StreamWriter::try_new(Vec::new(), schema)?, limit, count: 0, has_more: false })
    }

    /// Writes the rows of a batch that there is room for, and says whether these are all of them.
    fn takes_all_of(&mut self, batch: &RecordBatch) -> Result<bool, ArrowError> {
        let rows = batch.num_rows();
        let wanted = rows.min(usize::try_from(self.limit - self.count).unwrap_or(usize::MAX));
        let room_bytes = MOST_BYTES.saturating_sub(self.writer.get_ref().len());
        let fitting = rows_within(batch, wanted, room_bytes)?;
        // Without one row, asking for the rest would never come to an end.
        let taken = if self.count == 0 { fitting.max(wanted.min(1)) } else { fitting };
        if taken > 0 {
            self.writer.write(&batch.slice(0, taken))?;
        }
        self.count += taken as u64;
        self.has_more = taken < rows;
        Ok(!self.has_more)
    }

    fn finish(self) -> Result<Rows, ArrowError> {
        let (count, has_more) = (self.count, self.has_more);
        Ok(Rows { stream: self.writer.into_inner()?.into(), count, has_more })
    }
}

/// How many of the first `wanted` rows of a batch take so many bytes at most.
fn rows_within(batch: &RecordBatch, wanted: usize, room_bytes: usize) -> Result<usize, ArrowError> {
    let (mut fitting, mut too_many) = (0, wanted + 1);
    // Most often all fit, which one look tells.
    let mut asked = wanted;
    while too_many - fitting > 1 {
        match bytes_of(&batch.slice(0, asked))? <= room_bytes {
            true => fitting = asked,
            false => too_many = asked,
        }
        asked = fitting.midpoint(too_many);
    }
    Ok(fitting)
}

fn bytes_of(rows: &RecordBatch) -> Result<usize, ArrowError> {
    rows.columns().iter().map(|column| column.to_data().get_slice_memory_size()).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use arrow_array::StringArray;
    use arrow_ipc::reader::StreamReader;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// Rows with texts of this length.
    fn batch(texts: &[usize]) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]));
        let texts = StringArray::from_iter_values(texts.iter().map(|&length| "x".repeat(length)));
        RecordBatch::try_new(schema, vec![Arc::new(texts)]).unwrap()
    }

    fn answer(batches: &[RecordBatch], limit: u64) -> Rows {
        let mut stream = RowStream::new(&batches[0].schema(), limit).unwrap();
        let _ = batches.iter().find(|batch| !stream.takes_all_of(batch).unwrap());
        let rows = stream.finish().unwrap();
        let read: usize = StreamReader::try_new(&rows.stream[..], None).unwrap().map(|it| it.unwrap().num_rows()).sum();
        assert_eq!(read as u64, rows.count);
        rows
    }

    #[test]
    fn an_answer_ends_with_the_rows_that_were_asked_for() {
        let batches = [batch(&[1; 10]), batch(&[1; 10])];
        let rows = |limit| (answer(&batches, limit).count, answer(&batches, limit).has_more);
        assert_eq!([rows(0), rows(7), rows(10), rows(15)], [(0, true), (7, true), (10, true), (15, true)]);
        assert_eq!([rows(20), rows(30)], [(20, false), (20, false)]);
    }

    #[test]
    fn an_answer_ends_where_it_is_long_enough() {
        let megabyte = 1 << 20;
        let long = answer(&[batch(&[megabyte; 12]), batch(&[megabyte; 12])], 1000);
        assert!((14..=16).contains(&long.count) && long.has_more, "{}", long.count);
        assert!(long.stream.len() <= MOST_BYTES + 4096, "{}", long.stream.len());
        // One that is too long stands alone.
        let alone = answer(&[batch(&[MOST_BYTES + 1, 1]), batch(&[1])], 1000);
        assert_eq!((alone.count, alone.has_more), (1, true));
        let second = answer(&[batch(&[1, MOST_BYTES + 1])], 1000);
        assert_eq!((second.count, second.has_more), (1, true));
    }
}
