//! Runs as SQL views in DuckDB's dialect: the runs, their tables, and the metrics as documented.
//!
//! This writes statements and runs none: `dwell sql` gives them to DuckDB's command, the Python package to its module, and
//! anybody else to whatever reads Parquet with this dialect.

mod runs_view;
mod table_view;

use std::path::PathBuf;

use dwell_events::schema::Table;

use crate::{ReportError, RunResults};
use runs_view::RunsView;

/// Files of metrics that runs have beside their tables, with the name of their view.
const METRICS_FILES: [(&str, &str); 2] = [("metrics", "metrics.csv"), ("metrics_by_region", "metrics_by_region.csv")];

/// The definitions of the metrics, in the order in which they build on each other.
const DEFINITIONS: [&str; 3] = [include_str!("lives.sql"), include_str!("metrics.sql"), include_str!("mrm_trace.sql")];

/// The statements that make the views over these runs. Runs that were not finished have no tables and are left out.
pub fn sql_views(runs: &[RunResults], tables: &[Table]) -> Result<String, ReportError> {
    let runs: Vec<&RunResults> = runs.iter().filter(|run| run.is_finished()).collect();
    let view = RunsView::new(&runs)?;
    let mut statements = vec![view.statement()];
    statements.extend(tables.iter().map(|&table| table_view::of_table(&view, table)));
    statements.extend(METRICS_FILES.iter().map(|&(name, file)| table_view::of_csv(&view, name, file)));
    statements.extend(DEFINITIONS.map(str::to_owned));
    Ok(statements.join("\n"))
}

/// A text as a literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as an identifier.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A path as a literal's text: DuckDB takes UTF-8 only.
fn text_of(path: &std::path::Path) -> Result<String, ReportError> {
    path.to_str().map(str::to_owned).ok_or_else(|| ReportError::PathIsNotText { path: PathBuf::from(path) })
}
