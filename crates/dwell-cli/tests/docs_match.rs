//! The documentation says what the code does: tables, losses, options, links.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_events::schema::Table;
use dwell_events::{LossKind, Severity};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The cells of each row of the Markdown tables in a text, header and separator lines left out.
fn table_rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |line: &str| line.starts_with('|') && line.ends_with('|');
    let is_separator = |line: &str| is_row(line) && line.chars().all(|letter| "|-: ".contains(letter));
    let is_header = |at: usize| lines.get(at + 1).is_some_and(|next| is_separator(next));
    (0..lines.len())
        .filter(|&at| is_row(lines[at]) && !is_separator(lines[at]) && !is_header(at))
        .map(|at| lines[at].trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The part of a page under a heading of the second level, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("the page has no section {heading}"));
    let rest = &page[begin + 1..];
    &rest[..rest[3..].find("\n## ").map_or(rest.len(), |end| end + 3)]
}

/// A text without its links: what stands in the brackets remains.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let (words, after) = link.split_once("](").unwrap_or((link, ")"));
        plain.push_str(before);
        plain.push_str(words);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[test]
fn every_column_is_documented_with_type_and_meaning_and_nothing_else_is() {
    let tables = page("docs/formats/tables.md");
    for table in Table::ALL {
        let documented: Vec<[String; 4]> = table_rows(section(&tables, table.name()))
            .into_iter()
            .map(|cells| {
                let meaning = without_links(&cells[4]);
                [cells[0].trim_matches('`').to_owned(), cells[1].clone(), cells[2].clone(), meaning]
            })
            .collect();
        let columns: Vec<[String; 4]> = table
            .columns()
            .into_iter()
            .map(|column| {
                let is_optional = if column.nullable { "yes" } else { "no" };
                [column.name, column.type_text, is_optional.to_owned(), column.meaning.to_owned()]
            })
            .collect();
        assert_eq!(documented, columns, "docs/formats/tables.md, section {}", table.name());
    }
}

#[test]
fn every_table_has_a_section_and_no_other_section_lists_columns() {
    let tables = page("docs/formats/tables.md");
    let with_columns: Vec<&str> = tables
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|heading| !table_rows(section(&tables, heading)).is_empty())
        .collect();
    assert_eq!(with_columns, Table::ALL.map(Table::name));
}

#[test]
fn every_column_of_manifest_csv_is_documented_and_nothing_else_is() {
    let results = page("docs/formats/results.md");
    let columns = dwell_store::MANIFEST_COLUMNS.map(|column| {
        let unit = if column.unit.is_empty() { "–" } else { column.unit };
        vec![format!("`{}`", column.name), column.type_text.to_owned(), unit.to_owned(), column.meaning.to_owned()]
    });
    assert_eq!(table_rows(section(&results, "manifest.csv")), columns, "docs/formats/results.md, section manifest.csv");
}

#[test]
fn every_kind_of_loss_is_documented_with_its_severity_and_advice() {
    let loss = page("docs/loss.md");
    let documented: Vec<Vec<String>> =
        table_rows(&loss).into_iter().filter(|cells| cells.len() == 3 && cells[0].starts_with('`')).collect();
    let kinds = LossKind::ALL.map(|kind| {
        let severity = match kind.severity() {
            Severity::Info => "info",
            Severity::DataLoss => "data_loss",
        };
        vec![format!("`{}`", kind.name()), severity.to_owned(), kind.advice().to_owned()]
    });
    assert_eq!(documented, kinds, "the table of kinds in docs/loss.md");
    for kind in LossKind::ALL {
        assert!(
            loss.contains(&format!("**{}**", kind.name())),
            "docs/loss.md does not say when {} occurs",
            kind.name()
        );
    }
}

/// The long options that the help of a command lists.
fn options_of(command: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_dwell")).args(command).arg("--help").output().unwrap();
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    let named = |line: &str| {
        let option =
            line.trim_start().trim_start_matches("-o, ").trim_start_matches("-c, ").strip_prefix("--")?.to_owned();
        Some(option.chars().take_while(|&letter| letter.is_ascii_lowercase() || letter == '-').collect())
    };
    help.lines().filter_map(named).collect()
}

/// Whether a text names an option in code, and not only a longer one that begins like it.
fn names_option(text: &str, option: &str) -> bool {
    text.match_indices(&format!("`--{option}")).any(|(at, found)| text[at + found.len()..].starts_with(['`', ' ', '=']))
}

#[test]
fn every_option_of_every_command_is_documented() {
    let commands = page("docs/commands.md");
    let engine = page("docs/engines/llama_cpp.md");
    let all = [
        (&["run"][..], section(&commands, "dwell run").to_owned() + section(&commands, "dwell run --config") + &engine),
        (&["validate"], section(&commands, "dwell validate").to_owned()),
        (&["plan"], section(&commands, "dwell plan").to_owned()),
        (&["analyse"], section(&commands, "dwell analyse").to_owned()),
        (&["export"], section(&commands, "dwell export").to_owned()),
        (&["verify"], section(&commands, "dwell verify").to_owned()),
        (&["recover"], section(&commands, "dwell recover").to_owned()),
        (&["relabel"], section(&commands, "dwell relabel").to_owned()),
        (&["doctor"], section(&commands, "dwell doctor").to_owned()),
        (&["tensors", "info"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "verify"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "recover"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "stats"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "convert"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "diff"], section(&commands, "dwell tensors").to_owned()),
        (&["tensors", "export"], section(&commands, "dwell tensors").to_owned()),
        (&["model", "pull"], section(&commands, "dwell model pull").to_owned()),
        (&["model", "make"], section(&commands, "dwell model make").to_owned()),
        (&["model", "info"], section(&commands, "dwell model info").to_owned()),
    ];
    for (command, text) in all {
        let options = options_of(command);
        assert!(!options.is_empty(), "the help of {command:?} lists no options");
        for option in options {
            assert!(names_option(&text, &option), "the docs of `dwell {}` do not name `--{option}`", command.join(" "));
        }
    }
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
