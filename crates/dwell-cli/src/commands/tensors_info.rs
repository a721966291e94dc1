//! `dwell tensors info`: what a stream is.

use std::process::ExitCode;

use dwell_report::text::StreamInfo;
use dwell_tensors::stats;

use super::tensors;
use crate::args::TensorsFileArgs;
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let file = tensors::open(&args.file)?;
    let figures = stats(&file);
    let info = StreamInfo::new(&file, &figures);
    if args.json {
        super::print_json(&info)?;
    } else {
        print_result(&info.text())?;
    }
    Ok(tensors::exit_code(&[&file]))
}
