//! `dwell guard`: a program that ends with whoever started it. The worker puts it before every server that it starts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// A program that starts others has to be asked, so that it can end them; any other is killed, which cannot fail.
pub(crate) fn run(command: &[OsString], is_killed: bool) -> anyhow::Result<ExitCode> {
    // The kernel keeps the wish when the program takes this process over.
    let signal = if is_killed { Signal::KILL } else { Signal::TERM };
    set_parent_process_death_signal(Some(signal)).context("asking to end with the parent")?;
    let is_orphan = getppid().is_none_or(|parent| parent.as_raw_nonzero().get() == 1);
    anyhow::ensure!(!is_orphan, "the process that wanted this program has ended");
    dwell_worker::release_signals();
    let (program, arguments) = command.split_first().context("a program is needed")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("starting {program:?}"))
}
