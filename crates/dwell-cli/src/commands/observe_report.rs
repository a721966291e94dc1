//! `dwell observe report`: what files of observations say.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_observe::{Line, ObservationReport, TokenTime, observation_report, read_files};
use dwell_report::text::observation_report_text;
use dwell_report::{observation_figures, token_times};
use dwell_store::FilesRead;

use crate::args::ObserveReportArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::new_output::OutputFolder;
use crate::output::{print_result, say, step, unprinted_beside};

/// The report as data, beside the figures.
const REPORT_FILE: &str = "report.json";

pub(crate) fn run(args: &ObserveReportArgs) -> anyhow::Result<ExitCode> {
    let (lines, is_cut) = step("reading observations", || read_observations(&args.files))?;
    let tokens = args.run.as_deref().map(tokens_of).transpose()?;
    let report = step("correlating", || observation_report(lines, tokens.as_deref()));
    if let Some(folder) = &args.output {
        write(args, folder, &report)?;
    }
    let printed = if args.json { super::print_json(&report) } else { print_result(&observation_report_text(&report)) };
    printed.map_err(|error| unprinted_beside(error, args.output.as_ref()))?;
    Ok(if is_cut || report.lost > 0 { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// The lines of all files, and whether the last one of a file was cut.
pub(super) fn read_observations(files: &[PathBuf]) -> anyhow::Result<(Vec<Line>, bool)> {
    let (mut lines, mut is_cut) = (Vec::new(), false);
    for (file, read) in files.iter().zip(read_files(files).map_err(hinted)?) {
        if read.has_cut_line {
            say(format_args!("the last line is cut and left out: {file:?}\n"));
        }
        is_cut |= read.has_cut_line;
        lines.extend(read.lines);
    }
    Ok((lines, is_cut))
}

fn tokens_of(path: &Path) -> anyhow::Result<Vec<TokenTime>> {
    let run = super::one_run_at(path, "joining tokens")?;
    warn_of_changed_files(&run, FilesRead::Tables);
    token_times(run.path()).map_err(hinted)
}

fn write(args: &ObserveReportArgs, folder: &Path, report: &ObservationReport) -> anyhow::Result<()> {
    let mut files = OutputFolder::new(folder);
    files.add_json(REPORT_FILE, report)?;
    for figure in observation_figures(report) {
        for format in &args.format {
            files.add(format!("{}.{}", figure.name(), format.name()), figure.file(*format).map_err(hinted)?);
        }
        files.add(format!("{}.csv", figure.name()), figure.csv());
    }
    files.write(args.force)
}
