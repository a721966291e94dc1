//! `/tables`: what a run has in tables.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use dwell_collectors::tables;
use dwell_events::schema::Table;
use dwell_store::{RunDir, open_table};
use serde::Serialize;

use super::{App, FORMAT};
use crate::error::ApiError;
use crate::params::Params;

#[derive(Serialize)]
struct Tables {
    format: u32,
    tables: Vec<TableFacts>,
}

#[derive(Serialize)]
struct TableFacts {
    name: &'static str,
    rows: u64,
    columns: Vec<ColumnFacts>,
}

#[derive(Serialize)]
struct ColumnFacts {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
}

pub(super) async fn get(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let params = Params::of(query.as_deref(), &["run"])?;
    let run = params.required("run")?.to_owned();
    app.answer(move |app| {
        let run = app.run(&run)?;
        let found = tables().into_iter().filter(|&table| run.dir().table(table).exists());
        let tables = found.map(|table| facts(run.dir(), table)).collect::<Result<Vec<TableFacts>, ApiError>>()?;
        Ok(Tables { format: FORMAT, tables })
    })
    .await
}

fn facts(run: &RunDir, table: Table) -> Result<TableFacts, ApiError> {
    let opened = open_table(run.path(), table)?;
    let schema = opened.schema();
    let column = |field: &Arc<arrow_schema::Field>| ColumnFacts {
        name: field.name().clone(),
        data_type: field.data_type().to_string(),
    };
    Ok(TableFacts {
        name: table.name(),
        rows: opened.total_rows(),
        columns: schema.fields().iter().map(column).collect(),
    })
}
