//! The tables of columns in the documentation are those of the code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::Path;

use dwell_analysis::metrics::{region_columns, type_columns};
use dwell_analysis::{
    BANDWIDTH_COLUMNS, Column, HISTOGRAM_COLUMNS, HOT_COLD_COLUMNS, Merging, MetricTable, REUSE_COLUMNS,
};

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

fn lines<Row>(page: &str, columns: &[Column<Row>]) -> String {
    HEAD.to_owned() + &columns.iter().map(|column| line(page, column)).collect::<String>()
}

#[test]
fn the_page_has_every_column_as_the_code_describes_it() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE)).unwrap();
    let tables = [
        table(type_columns()),
        table(region_columns()),
        lines("retention", &HISTOGRAM_COLUMNS),
        lines("reuse_distance", &REUSE_COLUMNS),
        lines("bandwidth", &BANDWIDTH_COLUMNS),
        lines("hot_cold", &HOT_COLD_COLUMNS),
    ];
    for table in tables {
        assert!(text.contains(&table), "{PAGE} has to contain:\n{table}");
    }
    for merging in Merging::ALL {
        assert!(text.contains(&format!("| {} |", merging.name())), "{PAGE} does not explain {}", merging.name());
    }
}
