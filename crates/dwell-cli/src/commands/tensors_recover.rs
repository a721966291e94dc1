//! `dwell tensors recover`: ends a stream whose writer was stopped.

use std::process::ExitCode;

use dwell_report::text::tensors_recovered_text;
use dwell_tensors::{recover, verify};

use crate::args::TensorsFileArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::{print_result, unprinted};

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let recovered = recover(&args.file).map_err(hinted)?;
    let printed = match args.json {
        true => super::print_json(&recovered),
        false => print_result(&tensors_recovered_text(&recovered)),
    };
    printed.map_err(|error| unprinted(&error, &args.file))?;
    // An end does not make whole what was damaged on the disk.
    if verify(&args.file).map_err(hinted)?.is_sound() {
        return Ok(ExitCode::SUCCESS);
    }
    print_hints(&[format!("it holds damage: see where with `dwell tensors verify '{}'`", args.file.display())]);
    Ok(ExitCode::from(EXIT_WITH_LOSS))
}
