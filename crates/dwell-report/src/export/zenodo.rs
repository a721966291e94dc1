//! The metadata of a Zenodo deposit.

use serde::Serialize;
use serde_json::json;

use super::origin::listed;
use super::{Dataset, Exporter};
use crate::numbers;

/// Zenodo.
#[derive(Debug)]
pub(super) struct Zenodo;

impl Exporter for Zenodo {
    fn name(&self) -> &'static str {
        "zenodo"
    }

    fn title(&self) -> &'static str {
        "Zenodo"
    }

    fn files(&self, dataset: &Dataset<'_>) -> Vec<(&'static str, String)> {
        let deposit = metadata(dataset);
        vec![(".zenodo.json", json_text(&deposit)), ("metadata.json", json_text(&json!({ "metadata": deposit })))]
    }
}

/// What Zenodo asks of a deposit; the names are its own.
#[derive(Serialize)]
struct DepositMetadata {
    title: String,
    upload_type: &'static str,
    description: String,
    creators: Vec<Creator>,
    access_right: &'static str,
    license: String,
    version: String,
    keywords: [&'static str; 5],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_identifiers: Vec<RelatedIdentifier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
}

#[derive(Serialize)]
struct Creator {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    affiliation: Option<String>,
}

#[derive(Serialize)]
struct RelatedIdentifier {
    identifier: String,
    relation: &'static str,
}

/// Indented, with a final newline. Text and lists of text always are JSON.
fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The deposit of a dataset.
fn metadata(dataset: &Dataset<'_>) -> DepositMetadata {
    let origin = &dataset.origin;
    let affiliation = origin.first_stated(|experiment| &experiment.about.institution).map(str::to_owned);
    let mut authors = origin.authors();
    if authors.is_empty() {
        // Zenodo wants a creator; an empty name would be refused later and with less to go by.
        authors.push("Unknown");
    }
    let paper = origin.first_stated(|experiment| &experiment.about.paper_ref);
    let identifier = paper.and_then(identifier_of);
    DepositMetadata {
        title: dataset.title.clone(),
        upload_type: "dataset",
        description: description(dataset),
        creators: authors
            .into_iter()
            .map(|name| Creator { name: name.to_owned(), affiliation: affiliation.clone() })
            .collect(),
        access_right: "open",
        license: dataset.licence.zenodo(),
        version: origin.version().to_owned(),
        keywords: ["large language models", "memory access trace", "KV cache", "managed-retention memory", "dwell"],
        notes: notes(paper.filter(|_| identifier.is_none()), dataset),
        related_identifiers: identifier
            .map(|identifier| RelatedIdentifier { identifier, relation: "isSupplementTo" })
            .into_iter()
            .collect(),
    }
}

/// What has no field of its own: a paper in words, a licence that Zenodo's list does not have.
fn notes(paper: Option<&str>, dataset: &Dataset<'_>) -> Option<String> {
    let licence = &dataset.licence;
    let expression = (!licence.is_one_listed()).then(|| format!("Licence: {}", licence.name));
    let notes: Vec<String> = paper.map(str::to_owned).into_iter().chain(expression).collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}

/// A DOI or an address, as Zenodo takes it; none for a reference in words.
fn identifier_of(paper: &str) -> Option<String> {
    let paper = paper.trim();
    let doi =
        ["https://doi.org/", "http://doi.org/", "doi:", "DOI:"].iter().find_map(|prefix| paper.strip_prefix(prefix));
    let doi = doi.map(str::trim).or(Some(paper)).filter(|text| text.starts_with("10.") && text.contains('/'));
    let address = ["https://", "http://"].iter().any(|prefix| paper.starts_with(prefix)).then_some(paper);
    let arxiv = (paper.starts_with("arXiv:") || paper.starts_with("arxiv:")).then_some(paper);
    doi.or(address).or(arxiv).filter(|text| !text.contains(char::is_whitespace)).map(str::to_owned)
}

fn description(dataset: &Dataset<'_>) -> String {
    let mut text = String::new();
    for description in dataset.origin.descriptions() {
        text.push_str(&format!("<p>{}</p>", escaped(description)));
    }
    text.push_str(&format!(
        "<p>{} runs of {} with {} rows of memory accesses; {}.</p>\
         <p>README.md says how it was obtained, what each column means and what is missing.</p>",
        dataset.runs.len(),
        escaped(&listed(&dataset.origin.models)),
        numbers::count(dataset.origin.trace_rows),
        escaped(&dataset.exclusions_text()),
    ));
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paper_is_linked_if_it_can_be() {
        let found = |text: &str| identifier_of(text);
        assert_eq!(found("10.1145/3.4").as_deref(), Some("10.1145/3.4"));
        assert_eq!(found("doi: 10.1145/3.4").as_deref(), Some("10.1145/3.4"));
        assert_eq!(found("https://doi.org/10.1145/3.4").as_deref(), Some("10.1145/3.4"));
        assert_eq!(found("https://example.org/paper").as_deref(), Some("https://example.org/paper"));
        assert_eq!(found("arXiv:2501.09605").as_deref(), Some("arXiv:2501.09605"));
        assert_eq!(found("Doe et al., 10 ways, 2025"), None);
    }
}
