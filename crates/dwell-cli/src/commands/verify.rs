//! `dwell verify`: every file of a run, or of all runs of a tree, against its manifest.

use std::process::ExitCode;

use dwell_collectors::tables;
use dwell_files::FileError;
use dwell_report::text::verify_text;
use dwell_store::{RunDir, StoreError, TreeKind, verify};

use super::verify_tree;
use crate::args::VerifyArgs;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::output::{print_result, step};

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    match super::kind_at(&args.path)? {
        TreeKind::Run => verify_run(args),
        TreeKind::Tree => verify_tree::run(args),
    }
}

fn verify_run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.path).map_err(hinted)?;
    let report =
        step("checking files", || verify(&args.path, &tables())).map_err(|error| unverifiable(&error, &run))?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&verify_text(&report))?;
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

/// A manifest that is not there was not written yet, or was removed; recovery writes it in both cases.
fn unverifiable(error: &StoreError, run: &RunDir) -> Failure {
    match error {
        StoreError::File(FileError::NotFound { .. }) => Failure::new(error.to_string())
            .hint(format!("finish the run with `dwell recover '{}'`, which writes it", run.path().display())),
        _ => Failure::from_hinted(error),
    }
}
