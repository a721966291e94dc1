//! `dwell tensors verify`: whether a stream holds what was written.

use std::process::ExitCode;

use dwell_report::text::tensors_verify_text;
use dwell_tensors::verify;

use crate::args::TensorsFileArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let report = verify(&args.file).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&tensors_verify_text(&report))?;
    }
    if !report.is_finished {
        print_hints(&[format!("end it with `dwell tensors recover '{}'`", args.file.display())]);
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}
