//! `dwell tensors recover`: ends a stream whose writer was stopped.

use std::process::ExitCode;

use dwell_report::text::tensors_recovered_text;
use dwell_tensors::recover;

use crate::args::TensorsFileArgs;
use crate::messages::hinted;
use crate::output::{print_result, unprinted};

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let recovered = recover(&args.file).map_err(hinted)?;
    let printed = match args.json {
        true => super::print_json(&recovered),
        false => print_result(&tensors_recovered_text(&recovered)),
    };
    printed.map_err(|error| unprinted(&error, &args.file))?;
    Ok(ExitCode::SUCCESS)
}
