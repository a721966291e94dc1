//! `README.md` of a dataset; for Hugging Face with the front matter of a dataset card.

use std::fmt::Write;

use dwell_events::schema::Table;

use super::origin::listed;
use super::{Dataset, ExportFormat, place_of};
use crate::dictionary::DictionaryEntry;
use crate::numbers;

/// The whole page.
pub(super) fn readme(dataset: &Dataset<'_>, dictionary: &[DictionaryEntry]) -> String {
    let front_matter = if dataset.format == ExportFormat::HuggingFace { front_matter(dataset) } else { String::new() };
    [
        front_matter,
        format!("# {}\n\n", dataset.title),
        what(dataset),
        how(dataset),
        runs(dataset),
        validity(dataset),
        figures(dataset),
        columns(dictionary),
        limits(dataset),
        citation(dataset),
        format!("## Licence\n\n[{}]({})\n", dataset.licence.name, dataset.licence.address()),
    ]
    .concat()
}

/// Quoted so that YAML takes it for text, whatever it holds: JSON strings are YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn front_matter(dataset: &Dataset<'_>) -> String {
    let mut text = String::from("---\n");
    text.push_str(&dataset.licence.front_matter());
    let _ = writeln!(text, "pretty_name: {}", quoted(&dataset.title));
    text.push_str("tags:\n- llm\n- memory-trace\n- kv-cache\n- managed-retention-memory\n");
    let _ = writeln!(text, "size_categories:\n- {}", size_category(dataset.origin.trace_rows));
    text.push_str("configs:\n");
    for table in Table::ALL.into_iter().filter(|table| has_table(dataset, *table)) {
        let _ = writeln!(text, "- config_name: {}\n  data_files: \"data/*/*/{}\"", table.name(), table.file_name());
    }
    text.push_str("---\n\n");
    text
}

fn has_table(dataset: &Dataset<'_>, table: Table) -> bool {
    dataset.runs.iter().any(|run| run.path.join(table.file_name()).is_file())
}

/// The class of Hugging Face for so many rows.
fn size_category(rows: u64) -> &'static str {
    const CLASSES: [(u64, &str); 8] = [
        (1_000, "n<1K"),
        (10_000, "1K<n<10K"),
        (100_000, "10K<n<100K"),
        (1_000_000, "100K<n<1M"),
        (10_000_000, "1M<n<10M"),
        (100_000_000, "10M<n<100M"),
        (1_000_000_000, "100M<n<1B"),
        (10_000_000_000, "1B<n<10B"),
    ];
    CLASSES.iter().find(|(limit, _)| rows < *limit).map_or("10B<n<100B", |(_, name)| name)
}

fn what(dataset: &Dataset<'_>) -> String {
    let mut text = String::new();
    for description in dataset.origin.descriptions() {
        let _ = writeln!(text, "{description}\n");
    }
    let _ = writeln!(
        text,
        "{} of {} with {} rows of `trace`: which bytes of weights, KV cache and activations were loaded and stored, \
         and when.\n",
        if dataset.runs.len() == 1 { "One run".to_owned() } else { format!("{} runs", dataset.runs.len()) },
        listed(&dataset.origin.models),
        numbers::count(dataset.origin.trace_rows),
    );
    text.push_str(
        "| file | holds |\n| --- | --- |\n\
         | `data/<model>/<run>/` | the tables, figures and metadata of one run |\n\
         | `manifest.csv` | one row per run |\n\
         | `summary.csv`, `figures/` | mean, spread and confidence interval of every figure over repetitions |\n\
         | `data_dictionary.csv`, `.json` | every column of every file |\n\
         | `checksums.sha256` | check with `sha256sum -c checksums.sha256` |\n\n",
    );
    text
}

fn how(dataset: &Dataset<'_>) -> String {
    let origin = &dataset.origin;
    let mut text = String::from("## How it was obtained\n\n| | |\n| --- | --- |\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {} |", cell(&value));
    };
    origin.machines.iter().for_each(|machine| line("machine", machine.clone()));
    line("runtime", listed(&origin.runtimes));
    line("recorded with", format!("dwell {}", listed(&origin.dwell_versions)));
    if let Some((first, last)) = &origin.days {
        line("recorded on", if first == last { first.clone() } else { format!("{first} to {last}") });
    }
    line("tables, with collector and basis", listed(&origin.tables));
    text.push_str(
        "\nBasis: `exact`, every access was seen; `sampled`, one access or moment in an interval; `inferred`, something \
         unseen was concluded; `none`, the collector was not used. Times are nanoseconds of CLOCK_MONOTONIC; \
         `metadata.json` of a run has the wall-clock time of one moment. Absolute paths in the metadata are shortened to \
         file names.\n\n",
    );
    text
}

fn runs(dataset: &Dataset<'_>) -> String {
    let mut text = String::from(
        "## Runs\n\n| run | context | batch | output tokens | KV type | flash | threads | kind | validity | quality |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for run in &dataset.runs {
        let [_, context, batch, output, kv_type, flash, threads, _] = crate::GroupKey::of(run).fields();
        let metadata = &run.metadata;
        let quality = metadata.quality.as_ref().map_or("", |quality| quality.status.name());
        let _ = writeln!(
            text,
            "| `{}` | {context} | {batch} | {output} | {kv_type} | {flash} | {threads} | {} | {} | {quality} |",
            place_of(run),
            metadata.kind().name(),
            metadata.validity_class().name(),
        );
    }
    text.push('\n');
    text
}

fn validity(dataset: &Dataset<'_>) -> String {
    let classes: Vec<String> =
        dataset.aggregate.validity.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let mut text = format!(
        "## Validity and exclusions\n\nValidity of the runs: {}; {}.\n\n",
        classes.join(", "),
        dataset.aggregate.exclusions_text(),
    );
    if !dataset.excluded.is_empty() {
        text.push_str("| run left out | why |\n| --- | --- |\n");
        for exclusion in &dataset.excluded {
            let why = [exclusion.reason.words(), &exclusion.detail].join(" ");
            let _ = writeln!(text, "| `{}/{}` | {} |", exclusion.model_id, exclusion.run_id, cell(why.trim()));
        }
        text.push('\n');
    }
    text
}

fn figures(dataset: &Dataset<'_>) -> String {
    if dataset.aggregate.groups.is_empty() {
        return String::new();
    }
    "## Figures\n\nIn `figures/`, from `summary.csv`. Each states how many runs it is of.\n\n".to_owned()
}

fn columns(dictionary: &[DictionaryEntry]) -> String {
    let mut text = String::from("## Columns\n\n");
    let mut file = "";
    for entry in dictionary {
        if entry.file != file {
            file = &entry.file;
            let _ = writeln!(
                text,
                "\n### {file}\n\n| column | type | null | unit | meaning |\n| --- | --- | --- | --- | --- |"
            );
        }
        let null = if entry.nullable { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| `{}` | {} | {null} | {} | {} |",
            entry.column,
            entry.type_text,
            entry.unit,
            cell(&entry.meaning)
        );
    }
    text.push('\n');
    text
}

fn limits(dataset: &Dataset<'_>) -> String {
    let mut text =
        String::from("## Known limits\n\nThe table `loss` of each run states what was not seen. Over all runs:\n\n");
    if dataset.losses.is_empty() {
        text.push_str("nothing.\n\n");
        return text;
    }
    text.push_str("| kind | severity | runs | count | meaning |\n| --- | --- | --- | --- | --- |\n");
    for loss in &dataset.losses {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            loss.kind,
            loss.severity,
            loss.runs,
            numbers::count(loss.count),
            cell(&loss.advice)
        );
    }
    text.push('\n');
    text
}

fn citation(dataset: &Dataset<'_>) -> String {
    let origin = &dataset.origin;
    let authors = origin.authors();
    let paper = origin.first_stated(|experiment| &experiment.about.paper_ref);
    if authors.is_empty() && paper.is_none() {
        return String::new();
    }
    let year = origin.days.as_ref().map_or("", |(_, last)| last.get(..4).unwrap_or_default());
    let mut text = String::from("## Citation\n\n");
    if let Some(paper) = paper {
        let _ = writeln!(text, "{paper}\n");
    }
    let institution = origin.first_stated(|experiment| &experiment.about.institution);
    let institution = institution.map_or_else(String::new, |name| format!("  institution = {{{name}}},\n"));
    let _ = writeln!(
        text,
        "```bibtex\n@misc{{dataset,\n  title = {{{}}},\n  author = {{{}}},\n{institution}  year = {{{year}}},\n  version = \
         {{{}}}\n}}\n```\n",
        dataset.title,
        authors.join(" and "),
        origin.version(),
    );
    text
}

/// A text that does not break a table.
fn cell(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_class_holds_the_rows() {
        let classes = [0, 999, 1_000, 205_727, 99_999_999, 20_000_000_000].map(size_category);
        assert_eq!(classes, ["n<1K", "n<1K", "1K<n<10K", "100K<n<1M", "10M<n<100M", "10B<n<100B"]);
    }
}
