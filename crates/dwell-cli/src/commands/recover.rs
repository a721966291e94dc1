//! `dwell recover`: finishes a run that was killed.

use std::process::ExitCode;

use dwell_run::{BuildOptions, recover_run};

use crate::args::RecoverArgs;
use crate::messages::hinted;
use crate::terminal::Terminal;

pub(crate) fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let options = BuildOptions { analysis: args.metrics.options() };
    let mut terminal = Terminal::new(args.json, 0);
    let built = recover_run(&args.run, &options, &mut terminal);
    terminal.finish();
    super::run::print_summary(&built.map_err(hinted)?, args.json)
}
