//! Runs whose files are not those that were sealed: they are read, and that is said.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_store::{FilesRead, RunDir, changed_files};

use crate::messages::EXIT_WITH_LOSS;
use crate::output::complain;
use crate::shell::shell_word;

/// Whether a file was found that differs from its manifest. Results rest on it, whatever command printed them.
static HAS_CHANGED_FILES: AtomicBool = AtomicBool::new(false);

/// Warns of the files of a run that differ from its manifest, of those that are about to be read.
pub(crate) fn warn_of_changed_files(run: &RunDir, read: FilesRead) {
    for file in changed_files(run, read) {
        HAS_CHANGED_FILES.store(true, Ordering::Relaxed);
        let path = shell_word(&run.path().display().to_string());
        complain(format_args!("warning: {file} differs from the manifest; `dwell verify {path}` says more\n"));
    }
}

/// The exit code of a command that succeeded: something is wrong if a file was found that differs.
pub(crate) fn exit_code(of_command: ExitCode) -> ExitCode {
    match of_command == ExitCode::SUCCESS && HAS_CHANGED_FILES.load(Ordering::Relaxed) {
        true => ExitCode::from(EXIT_WITH_LOSS),
        false => of_command,
    }
}
