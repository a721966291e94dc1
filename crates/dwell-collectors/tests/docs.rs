//! The pages on collectors and probes say what the code says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/generated.rs"]
mod generated;

use dwell_collectors::ALL;
use dwell_events::schema::ColumnDoc;
use dwell_host::probe_specs;
use generated::{check_generated, generated_parts, markdown_table};

#[test]
fn every_documented_page_of_a_collector_begins_with_what_it_says_of_itself() {
    for collector in ALL {
        let about = collector.description();
        let basis = format!("`{}`", about.basis.name());
        let rows = [("observes", about.observes), ("basis", &basis), ("needs", about.needs), ("cost", about.cost)];
        let table =
            markdown_table(["collector", about.name.name()], rows.map(|(key, text)| [key.to_owned(), text.to_owned()]));
        check_generated(&page_of(about.name.name()), "description", &table);
    }
}

#[test]
fn every_documented_column_of_a_table_of_its_own_is_on_the_page_of_the_collector() {
    for collector in ALL {
        let page = page_of(collector.description().name.name());
        let tables = collector.own_tables();
        let names = tables.iter().map(|table| format!("columns of {}", table.name()));
        assert_eq!(generated_parts(&page)[1..], names.clone().collect::<Vec<_>>(), "{page}");
        for (table, name) in tables.iter().zip(names) {
            let row = |column: ColumnDoc| {
                let null = if column.nullable { "yes" } else { "no" };
                let unit = if column.unit.is_empty() { "–" } else { column.unit };
                [format!("`{}`", column.name), column.type_text, null.into(), unit.into(), column.meaning.into()]
            };
            let rows = table.columns().into_iter().map(row);
            check_generated(&page, &name, &markdown_table(["column", "type", "null", "unit", "meaning"], rows));
        }
    }
}

#[test]
fn what_doctor_tries_is_documented_in_its_order() {
    let checks = ALL.iter().map(|collector| {
        let about = collector.description();
        let name = about.name.name();
        let link = format!("[`{name}`](collectors/{name}.md)");
        [link, about.tried.to_owned(), about.observes.to_owned(), about.needs.to_owned()]
    });
    let table = markdown_table(["collector", "what is done", "what it enables", "needs"], checks);
    check_generated("docs/doctor.md", "checks of collectors", &table);
    let probes = probe_specs().iter().map(|probe| {
        [format!("`{}`", probe.name), probe.tried.to_owned(), probe.enables.to_owned(), probe.otherwise.to_owned()]
    });
    let table = markdown_table(["probe", "what is done", "what it enables", "if it does not work"], probes);
    check_generated("docs/doctor.md", "probes", &table);
}

fn page_of(collector: &str) -> String {
    format!("docs/collectors/{collector}.md")
}
