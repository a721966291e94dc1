//! Parts of Markdown pages that are made from the code; the tests of every crate take this file in.
//!
//! Such a part stands between two comments:
//!
//! ```text
//! <!-- generated: columns of trace -->
//! | column | type | …
//! <!-- end -->
//! ```
//!
//! A test makes the text anew and compares. With `DWELL_UPDATE_DOCS=1` it writes the text into the page instead. A page
//! may turn words of a generated line into links: links are left out of the comparison, and kept when the rest of the line
//! is still right.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Asks for pages to be written.
const UPDATE_VARIABLE: &str = "DWELL_UPDATE_DOCS";
const END: &str = "<!-- end -->";
/// Tests that share a page run at the same time.
static WRITING: Mutex<()> = Mutex::new(());

/// A page, by its path from the root of the repository.
fn path_of(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

/// Asserts that a part of a page says what the code says, or makes it say so.
pub fn check_generated(page: &str, name: &str, generated: &str) {
    let _guard = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(path_of(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (before, found, after) = parts(&text, page, name);
    if without_links(found) == without_links(generated) {
        return;
    }
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        let written = format!("{before}{}{after}", with_links_of(found, generated));
        return fs::write(path_of(page), written).unwrap_or_else(|error| panic!("{page}: {error}"));
    }
    panic!(
        "{page} does not say what the code says of {name}; \
         run the tests with {UPDATE_VARIABLE}=1 to write it.\nfound:\n{found}\nneeded:\n{generated}"
    );
}

/// The text of a generated part.
#[allow(dead_code)] // Not every test needs it.
pub fn generated_part(page: &str, name: &str) -> String {
    let text = fs::read_to_string(path_of(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    parts(&text, page, name).1.to_owned()
}

/// Names of the generated parts of a page, in order.
#[allow(dead_code)] // Not every test needs it.
pub fn generated_parts(page: &str) -> Vec<String> {
    let text = fs::read_to_string(path_of(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let name = |line: &str| Some(line.strip_prefix("<!-- generated: ")?.strip_suffix(" -->")?.to_owned());
    text.lines().filter_map(name).collect()
}

/// What stands before a generated part, the part, and what comes after it.
fn parts<'a>(text: &'a str, page: &str, name: &str) -> (&'a str, &'a str, &'a str) {
    let begin = format!("<!-- generated: {name} -->\n");
    let begins_at = text.find(&begin).unwrap_or_else(|| panic!("{page} has no line {}", begin.trim_end()));
    let (before, rest) = text.split_at(begins_at + begin.len());
    let ends_at = rest.find(END).unwrap_or_else(|| panic!("{page}: the part {name} has no {END}"));
    (before, &rest[..ends_at], &rest[ends_at..])
}

/// A Markdown table.
#[allow(dead_code)] // Not every test needs it.
pub fn markdown_table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", " --- |".repeat(COLUMNS));
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    line(&head.map(str::to_owned)) + &rule + &rows
}

/// The generated lines, each as the page has it where only links differ.
fn with_links_of(found: &str, generated: &str) -> String {
    let linked: HashMap<String, &str> = found.lines().map(|line| (without_links(line), line)).collect();
    generated.lines().map(|line| linked.get(&without_links(line)).copied().unwrap_or(line).to_owned() + "\n").collect()
}

/// A text without its links: what stands in the brackets remains.
pub fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let link_end = link.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?.1)));
        match link_end.filter(|(words, _)| !words.contains(['[', ']', '\n'])) {
            Some((words, after)) => {
                plain.push_str(words);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain + rest
}
