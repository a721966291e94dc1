//! `README.md` of a dataset.

use std::fmt::Write;

use super::origin::listed;
use super::{Dataset, place_of};
use crate::dictionary::DictionaryEntry;
use crate::numbers;

/// The whole page.
pub(super) fn readme(dataset: &Dataset<'_>, dictionary: &[DictionaryEntry]) -> String {
    [
        dataset.exporter.front_matter(dataset),
        format!("# {}\n\n", dataset.title),
        what(dataset),
        how(dataset),
        runs(dataset),
        validity(dataset),
        figures(dataset),
        columns(dictionary),
        limits(dataset),
        citation(dataset),
        format!("## Licence\n\n{}\n", dataset.licence.markdown()),
    ]
    .concat()
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
         | `checksums.sha256` | check with `sha256sum -c checksums.sha256` |\n\n\
         Every table of a run, Parquet or CSV, has the columns `run_id`, `model_id` and `configuration`, so tables of many \
         runs can be read as one. Runs of one configuration are repetitions; `manifest.csv` and `summary.csv` have the \
         same column.\n\n",
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
        "## Runs\n\n| run | configuration | context | batch | output tokens | KV type | flash | threads | kind | validity | quality \
         |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for run in &dataset.runs {
        let key = crate::GroupKey::of(run);
        let [_, context, batch, output, kv_type, flash, threads, _] = key.fields();
        let metadata = &run.metadata;
        let quality = metadata.quality.as_ref().map_or("", |quality| quality.status.name());
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {context} | {batch} | {output} | {kv_type} | {flash} | {threads} | {} | {} | {quality} |",
            place_of(run),
            key.configuration(),
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
        dataset.exclusions_text(),
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
