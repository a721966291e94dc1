//! `dwell import`: runs from what others recorded.

use std::process::ExitCode;

use dwell_build::import::{
    ImportError, ImportReport, ImportRequest, Importer, SummaryFigure, SummaryText, begin_import, import_into,
};
use dwell_files::FileError;
use dwell_host::work_in_huge_pages;
use dwell_report::RUN_VIEWS;
use dwell_report::text::{bytes, count, or_dash, seconds, table, totals};
use dwell_store::{RunState, StoreError};

use super::run::OTHER_RUN_ID;
use crate::args::ImportCommand;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure};
use crate::output::{print_result, step, unprinted};

pub(crate) fn run(command: &ImportCommand) -> anyhow::Result<ExitCode> {
    let ImportCommand { importer, args, options } = command;
    let request = ImportRequest {
        files: args.files.clone(),
        results: args.output.clone(),
        model_id: args.model_id.clone(),
        run_id: args.run_id.clone(),
        options: options.clone(),
        command_line: command_line(*importer),
    };
    work_in_huge_pages();
    let interruption = Interruption::listen()?;
    let run = interruption.importing_begins(|| begin_import(&request)).map_err(|error| not_imported(&error))?;
    let imported = step("importing", || import_into(&run, *importer, &request, &RUN_VIEWS));
    let report = imported.map_err(|error| not_imported(&error))?;
    let printed = if args.json { super::print_json(&report) } else { print_result(&report_text(&report)) };
    printed.map_err(|error| unprinted(&error, &report.run_dir))?;
    Ok(if report.state == RunState::Partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

fn not_imported(error: &ImportError) -> Failure {
    let failure = Failure::from_hinted(error);
    match error {
        ImportError::Store(StoreError::File(FileError::Exists { .. })) => failure.hint(OTHER_RUN_ID),
        _ => failure,
    }
}

/// The command line without the values of options that must not be in the metadata.
fn command_line(importer: &dyn Importer) -> Vec<String> {
    let secrets = importer.options().iter().filter(|option| option.is_secret);
    let secrets: Vec<String> = secrets.map(|option| format!("--{}", option.name)).collect();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    without_values_of(&secrets, words)
}

fn without_values_of(secrets: &[String], words: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_value = false;
    let hide = |word: String| {
        let was_option = std::mem::replace(&mut is_value, secrets.contains(&word));
        let option = word.split_once('=').map(|(option, _)| option.to_owned());
        match option.filter(|option| secrets.contains(option)) {
            Some(option) => format!("{option}=…"),
            None if was_option => "…".to_owned(),
            None => word,
        }
    };
    words.map(hide).collect()
}

fn report_text(import: &ImportReport) -> String {
    let summary = &import.summary;
    let lines = summary.lines.iter().map(|(name, text)| format!("{name:<9} {}\n", words(text)));
    let mut cells = vec![summary.header.iter().map(|&head| head.to_owned()).collect::<Vec<_>>()];
    for (name, counts) in &summary.rows {
        cells.push([name.clone()].into_iter().chain(counts.iter().map(|&value| count(value))).collect());
    }
    format!("{}\n{}\n{}\n", lines.collect::<String>(), table(&cells), import.run_dir.display())
}

fn words(text: &SummaryText) -> String {
    match text {
        SummaryText::Sentence(sentence, figures) => {
            let write = |text: String, figure: &SummaryFigure| text.replacen("{}", &figure_text(*figure), 1);
            figures.iter().fold((*sentence).to_owned(), write)
        }
        SummaryText::Totals(counts) => match totals(counts) {
            text if text.is_empty() => "nothing".to_owned(),
            text => text,
        },
    }
}

fn figure_text(figure: SummaryFigure) -> String {
    match figure {
        SummaryFigure::Count(value) => count(value),
        SummaryFigure::Seconds(value) => or_dash(value, seconds),
        SummaryFigure::Bytes(value) => or_dash(value, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_options_are_not_kept() {
        let secrets = ["--salt".to_owned()];
        let kept = |line: &str| without_values_of(&secrets, line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(kept("dwell import x --salt hush -o r"), "dwell import x --salt … -o r");
        assert_eq!(kept("dwell import x --salt=hush --model-id=m"), "dwell import x --salt=… --model-id=m");
    }

    #[test]
    fn figures_stand_where_the_sentence_has_room() {
        let figures =
            vec![SummaryFigure::Count(1_500), SummaryFigure::Seconds(Some(3.0)), SummaryFigure::Seconds(None)];
        let text = SummaryText::Sentence("{} batches over {}, {}", figures);
        assert_eq!(words(&text), "1,500 batches over 3.00 s, –");
        assert_eq!(words(&SummaryText::Totals(vec![(0, "lost")])), "nothing");
    }
}
