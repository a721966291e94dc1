//! `dwell export`: a folder of runs that is ready to be published.

use std::process::ExitCode;

use dwell_files::staging_path;
use dwell_report::text::{bytes, counted};
use dwell_report::{ExportReport, ExportRequest, Exporter, dataset_staging, export, export_perfetto};
use dwell_store::FilesRead;

use super::analyse_tree::read_runs;
use crate::args::{ExportArgs, ExportFormat};
use crate::changed_files::warn_of_changed_files;
use crate::interruption::Interruption;
use crate::messages::{Failure, hinted};
use crate::new_output::{check_file_in_folder, check_folder};
use crate::output::{print_result, say, step, unprinted};

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    match args.format {
        ExportFormat::Dataset(exporter) => export_dataset(args, exporter),
        ExportFormat::Perfetto => export_trace(args),
    }
}

/// Writes one run as a trace of Perfetto.
fn export_trace(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    check_file_in_folder(&args.output, args.force)?;
    let run = super::one_run_at(&args.path, "exporting a trace for Perfetto")?;
    let staging = staging_path(&args.output);
    Interruption::listen()?.writing_begins(staging.clone());
    warn_of_changed_files(&run, FilesRead::Tables);
    let report = step("exporting", || export_perfetto(&run, &args.output, staging)).map_err(hinted)?;
    if let Some(unit) = &report.time_unit {
        say(format_args!("note: the recording has no clock; each nanosecond in the file is one of its {unit}\n"));
    }
    let printed = if args.json {
        super::print_json(&report)
    } else {
        let slices = format!("{}, {}", counted(report.tokens, "token"), counted(report.operations, "operation"));
        print_result(&format!("{slices}, {}\n{}\n", bytes(report.size_bytes), args.output.display()))
    };
    printed.map_err(|error| unprinted(&error, &args.output))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a folder that is ready to be published.
fn export_dataset(args: &ExportArgs, exporter: &'static dyn Exporter) -> anyhow::Result<ExitCode> {
    check_folder(&args.output)?;
    let staging = dataset_staging(&args.output);
    Interruption::listen()?.writing_begins(staging.clone());
    let found = step("reading runs", || read_runs(&args.path))?;
    if found.has_unreadable {
        return Err(Failure::new(format!("exporting found runs that cannot be read: {:?}", args.path))
            .hint(format!("see what is wrong with `dwell verify '{}'`", args.path.display()))
            .into());
    }
    let request = ExportRequest {
        source: args.path.clone(),
        target: args.output.clone(),
        staging,
        exporter,
        licence: args.licence.clone(),
        title: args.title.clone(),
        with_raw: args.with_raw,
        all: args.all,
        tables: dwell_collectors::tables(),
    };
    let on_run = |run: &dwell_report::RunResults| {
        say(format_args!("checking and copying {}/{}\n", run.metadata.model_id, run.metadata.run_id));
    };
    let report = step("exporting", || export(&found.facts, &request, &on_run)).map_err(hinted)?;
    report.left_to_do.iter().for_each(|note| say(format_args!("note: {note}\n")));
    let printed = if args.json { super::print_json(&report) } else { print_result(&report_text(&report)) };
    printed.map_err(|error| unprinted(&error, &report.target))?;
    Ok(ExitCode::SUCCESS)
}

fn report_text(report: &ExportReport) -> String {
    format!(
        "{} in {}, {}\n{}\n{} shortened to file names\n{}\n",
        counted(report.runs as u64, "run"),
        counted(report.files as u64, "file"),
        bytes(report.size_bytes),
        report.exclusions,
        counted(report.shortened_paths as u64, "path"),
        report.target.display(),
    )
}
