//! The page of each collector says what its code says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_collectors::ALL;
use dwell_host::probe_names;

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A text with line breaks taken as blanks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_collector_has_a_page_with_its_basis_its_cost_and_what_it_needs() {
    for collector in ALL {
        let about = collector.description();
        let name = about.name.name();
        let page = words(&page(&format!("collectors/{name}.md")));
        assert!(page.starts_with(&format!("# {name} ")), "{name}");
        for (key, text) in [("observes", about.observes), ("needs", about.needs), ("cost", about.cost)] {
            assert!(
                page.contains(&format!("| {key} | {text} |")),
                "docs/collectors/{name}.md lacks: | {key} | {text} |"
            );
        }
        assert!(page.contains(&format!("| basis | `{}` |", about.basis.name())), "{name}: basis");
    }
}

#[test]
fn every_collector_and_every_probe_is_documented_in_the_order_of_doctor() {
    let page = page("doctor.md");
    let (_, table) = page.split_once("## What is tried").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let documented: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut listed: Vec<&str> = ALL.iter().map(|collector| collector.description().name.name()).collect();
    listed.extend(probe_names());
    assert_eq!(documented, listed);
}

#[test]
fn every_column_of_a_table_of_its_own_is_on_the_page_of_the_collector() {
    for collector in ALL {
        let page = page(&format!("collectors/{}.md", collector.description().name.name()));
        let documented: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let columns = collector.own_tables().iter().flat_map(|table| table.columns());
        let rows: Vec<String> = columns
            .map(|column| {
                let null = if column.nullable { "yes" } else { "no" };
                let unit = if column.unit.is_empty() { "–" } else { column.unit };
                format!("| `{}` | {} | {null} | {unit} | {} |", column.name, column.type_text, column.meaning)
            })
            .collect();
        let missing: Vec<&String> = rows.iter().filter(|row| !documented.contains(&row.as_str())).collect();
        assert!(missing.is_empty(), "the page of {} lacks {missing:#?}", collector.description().name.name());
    }
}
