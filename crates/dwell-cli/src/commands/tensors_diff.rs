//! `dwell tensors diff`: whether two streams hold the same tensors.

use std::process::ExitCode;

use dwell_report::text::tensors_diff_text;
use dwell_tensors::diff;

use super::tensors;
use crate::args::TensorsDiffArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::output::print_result;

pub(crate) fn run(args: &TensorsDiffArgs) -> anyhow::Result<ExitCode> {
    let (first, second) = (tensors::open(&args.first)?, tensors::open(&args.second)?);
    let report = diff(&first, &second, args.tolerance).map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&tensors_diff_text(&report))?;
    }
    let code = tensors::exit_code(&[&first, &second]);
    Ok(if report.is_same() { code } else { ExitCode::from(EXIT_WITH_LOSS) })
}
