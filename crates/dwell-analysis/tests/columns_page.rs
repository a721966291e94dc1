//! The tables of columns in the documentation are those of the code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::Path;

use dwell_analysis::metrics::{region_columns, type_columns};
use dwell_analysis::{Column, HISTOGRAM_COLUMNS, Merging, MetricTable};

const PAGE: &str = "docs/metrics/columns.md";

const HEAD: &str = "| column | type | unit | says | computed in | merges |\n| --- | --- | --- | --- | --- | --- |\n";

fn line<Row>(page: &str, column: &Column<Row>) -> String {
    let cells = [
        format!("`{}`", column.name),
        column.type_text().to_owned(),
        column.unit.symbol().to_owned(),
        column.meaning.to_owned(),
        format!("[{page}]({page}.md)"),
        column.merging.name().to_owned(),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn table<Row: 'static>(columns: Vec<(&MetricTable, &Column<Row>)>) -> String {
    let page = |table: &MetricTable| Path::new(table.page).file_stem().unwrap().to_str().unwrap().to_owned();
    let lines = columns.into_iter().map(|(table, column)| line(&page(table), column));
    std::iter::once(HEAD.to_owned()).chain(lines).collect()
}

#[test]
fn the_page_has_every_column_as_the_code_describes_it() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE)).unwrap();
    let histogram: String = HISTOGRAM_COLUMNS.iter().map(|column| line("retention", column)).collect();
    for table in [table(type_columns()), table(region_columns()), HEAD.to_owned() + &histogram] {
        assert!(text.contains(&table), "{PAGE} has to contain:\n{table}");
    }
    for merging in Merging::ALL {
        assert!(text.contains(&format!("| {} |", merging.name())), "{PAGE} does not explain {}", merging.name());
    }
}
