//! Runs as SQL views in DuckDB's dialect: the runs, their tables, and the metrics as documented.
//!
//! This writes statements and runs none: `dwell sql` gives them to DuckDB's command, the Python package to its module, and
//! anybody else to whatever reads Parquet with this dialect.

mod runs_view;
mod table_view;

use std::path::PathBuf;

use dwell_analysis::{BANDWIDTH_TABLE, HOT_COLD_TABLE, REUSE_TABLE};
use dwell_events::schema::Table;

use crate::{ReportError, RunResults};
use runs_view::RunsView;

/// Files of metrics that runs have beside their tables, with the name of their view.
const METRICS_FILES: [(&str, &str); 5] = [
    ("metrics", "metrics.csv"),
    ("metrics_by_region", "metrics_by_region.csv"),
    ("reuse_distance", REUSE_TABLE),
    ("bandwidth", BANDWIDTH_TABLE),
    ("hot_cold", HOT_COLD_TABLE),
];

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

#[cfg(test)]
mod tests {
    use dwell_metadata::RunMetadata;

    use super::*;

    fn run(run_id: &str, path: &str) -> RunResults {
        let metadata =
            RunMetadata { run_id: run_id.to_owned(), state: "complete".to_owned(), ..RunMetadata::default() };
        RunResults { path: PathBuf::from(path), metadata, ..RunResults::default() }
    }

    #[test]
    fn names_are_quoted_and_a_run_id_that_two_runs_have_is_replaced_by_their_paths() {
        let runs = [run("it's", "/a/it's"), run("same", "/a/same"), run("same", "/b/same")];
        let views = sql_views(&runs, &Table::ALL).expect("paths are text");
        let rows: Vec<&str> = views.lines().filter(|line| line.contains("'complete'")).collect();
        assert_eq!(rows.len(), 3, "{views}");
        assert!(rows[0].starts_with("  ('it''s', ") && rows[0].contains("'/a/it''s'"), "{}", rows[0]);
        assert!(rows[1].starts_with("  ('/a/same', ") && rows[2].starts_with("  ('/b/same', "), "{views}");
        // None of these has a table.
        assert!(!views.contains("read_parquet"), "{views}");
    }

    #[test]
    fn a_path_that_is_not_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let path = PathBuf::from(std::ffi::OsString::from_vec(vec![b'/', 0xff]));
        let error = sql_views(&[RunResults { path, ..run("r", "") }], &[]).expect_err("no UTF-8");
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }
}
