//! What the commands of `dwell tensors` share.

use std::path::Path;
use std::process::ExitCode;

use dwell_tensors::{FileEnd, TensorFile};

use crate::args::TensorsCommand;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::say;

use super::{tensors_convert, tensors_diff, tensors_info, tensors_recover, tensors_stats, tensors_verify};

pub(crate) fn run(command: &TensorsCommand) -> anyhow::Result<ExitCode> {
    match command {
        TensorsCommand::Info(args) => tensors_info::run(args),
        TensorsCommand::Verify(args) => tensors_verify::run(args),
        TensorsCommand::Recover(args) => tensors_recover::run(args),
        TensorsCommand::Stats(args) => tensors_stats::run(args),
        TensorsCommand::Convert(args) => tensors_convert::run(args),
        TensorsCommand::Diff(args) => tensors_diff::run(args),
        TensorsCommand::Export(args) => tensors_convert::export(args),
    }
}

pub(super) fn open(path: &Path) -> anyhow::Result<TensorFile> {
    TensorFile::open(path).map_err(hinted)
}

/// The exit code of a command that read these streams, with a note about each that has no end.
pub(super) fn exit_code(streams: &[&TensorFile]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for stream in streams {
        if let FileEnd::Unfinished { reason, .. } = stream.end() {
            let path = stream.path().display();
            say(format_args!("note: only whole batches were read, because the stream has no end: {reason}\n"));
            print_hints(&[format!("end it with `dwell tensors recover '{path}'`")]);
            code = ExitCode::from(EXIT_WITH_LOSS);
        }
    }
    code
}
