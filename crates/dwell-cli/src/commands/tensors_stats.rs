//! `dwell tensors stats`: figures for each name.

use std::process::ExitCode;

use dwell_report::text::tensors_stats_text;
use dwell_tensors::stats;

use super::tensors;
use crate::args::TensorsFileArgs;
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let file = tensors::open(&args.file)?;
    let figures = stats(&file);
    if args.json {
        super::print_json(&figures)?;
    } else {
        print_result(&tensors_stats_text(&figures))?;
    }
    Ok(tensors::exit_code(&[&file]))
}
