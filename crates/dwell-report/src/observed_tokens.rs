//! When the tokens of a run were generated, for joining them with other recordings of the same time.

use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use dwell_observe::TokenTime;
use dwell_store::{number_at, open_table_columns};

use crate::ReportError;

/// The generated tokens of a run in the order of the table; those that one computation gave are one.
pub fn token_times(run: &Path) -> Result<Vec<TokenTime>, ReportError> {
    let mut times: Vec<TokenTime> = Vec::new();
    for batch in open_table_columns(run, Table::Tokens, &["is_generated", "begin_ns", "end_ns"])? {
        let batch = batch?;
        let Some(generated) = batch.column_by_name("is_generated").and_then(|column| column.as_boolean_opt()) else {
            continue;
        };
        for row in (0..batch.num_rows()).filter(|&row| generated.is_valid(row) && generated.value(row)) {
            let time = |column| number_at::<UInt64Type>(&batch, column, row).unwrap_or(0);
            let token = TokenTime { begin_ns: time("begin_ns"), end_ns: time("end_ns") };
            if times.last() != Some(&token) {
                times.push(token);
            }
        }
    }
    Ok(times)
}
