//! The documentation says what the code does: columns, losses, links. Options are compared in the binary's own tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::generated::{check_generated, generated_part, generated_parts, markdown_table, without_links};
use dwell_events::schema::{ColumnDoc, Table};
use dwell_events::{LossKind, Severity};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The `from` cell of a column, which the page alone knows: whose column it is.
fn origin(block: &str, column: &str) -> String {
    let row = without_links(block).lines().find_map(|line| {
        let cells: Vec<String> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect();
        (cells[0] == format!("`{column}`")).then(|| cells[3].clone())
    });
    row.unwrap_or_else(|| "dwell".to_owned())
}

#[test]
fn every_column_is_documented_with_type_and_meaning_and_nothing_else_is() {
    const PAGE: &str = "docs/formats/tables.md";
    let tables: Vec<Table> = Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS).collect();
    let parts: Vec<String> = tables.iter().map(|table| format!("columns of {}", table.name())).collect();
    assert_eq!(generated_parts(PAGE), parts);
    for table in tables {
        let name = format!("columns of {}", table.name());
        let written = generated_part(PAGE, &name);
        let row = |column: ColumnDoc| {
            let null = if column.nullable { "yes" } else { "no" }.to_owned();
            let origin = origin(&written, &column.name);
            [format!("`{}`", column.name), column.type_text, null, origin, column.meaning.to_owned()]
        };
        let rows = table.columns().into_iter().map(row);
        check_generated(PAGE, &name, &markdown_table(["column", "type", "null", "from", "meaning"], rows));
    }
}

#[test]
fn every_column_of_manifest_csv_is_documented_and_nothing_else_is() {
    let rows = dwell_store::MANIFEST_COLUMNS.map(|column| {
        let unit = if column.unit.is_empty() { "–" } else { column.unit };
        [format!("`{}`", column.name), column.type_text.to_owned(), unit.to_owned(), column.meaning.to_owned()]
    });
    let table = markdown_table(["column", "type", "unit", "meaning"], rows);
    check_generated("docs/formats/results.md", "columns of manifest.csv", &table);
}

#[test]
fn every_kind_of_loss_is_documented_with_its_severity_and_advice() {
    const PAGE: &str = "docs/loss.md";
    let rows = LossKind::ALL.map(|kind| {
        let severity = match kind.severity() {
            Severity::Info => "info",
            Severity::DataLoss => "data_loss",
        };
        [format!("`{}`", kind.name()), severity.to_owned(), kind.advice().to_owned()]
    });
    check_generated(PAGE, "kinds of loss", &markdown_table(["kind", "severity", "advice"], rows));
    for kind in LossKind::ALL {
        let is_explained = page(PAGE).contains(&format!("**{}**", kind.name()));
        assert!(is_explained, "{PAGE} does not say when {} occurs", kind.name());
    }
}

#[test]
fn every_figure_is_documented_with_what_it_shows() {
    let row = |kind: &dwell_report::FigureKind| {
        [format!("`{}`", kind.name), kind.source().name().to_owned(), kind.shows.to_owned()]
    };
    let table = markdown_table(["figure", "drawn from", "shows"], dwell_report::ALL_FIGURES.map(row));
    check_generated("docs/figures.md", "figures", &table);
}

#[test]
fn the_page_about_mrm_trace_names_the_version_of_the_schema() {
    let text = page("docs/mrm-trace.md").replace('\n', " ");
    assert!(text.contains(&format!("schema version `{}`", dwell_events::SCHEMA_VERSION)));
}

/// Every page: README, ARCHITECTURE and all Markdown below docs.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "md") {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

/// The prose of a page: what is not in code blocks.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// Targets of the links in a text.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|after| after.split(')').next()).collect()
}

/// What a heading is called in a link to it: lower case, spaces as dashes, no punctuation.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    heading.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")
}

fn has_anchor(path: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(path).unwrap();
    prose(&text).lines().any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#').trim()) == wanted)
}

#[test]
fn every_relative_link_leads_to_a_file_and_its_heading() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = prose(&fs::read_to_string(&page).unwrap());
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (target, heading) =
                link.split_once('#').map_or((link, None), |(target, heading)| (target, Some(heading)));
            let path = if target.is_empty() { page.clone() } else { page.with_file_name("").join(target) };
            let is_whole = path.exists() && heading.is_none_or(|heading| has_anchor(&path, heading));
            if !is_whole {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}
