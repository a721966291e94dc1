//! `dwell recover`: finishes a run that was killed, or every such run of a tree.

use std::path::Path;
use std::process::ExitCode;

use dwell_run::{BuiltRun, RunError, recover_run};
use dwell_store::{TreeKind, tree_kind};

use super::recover_tree;
use crate::args::RecoverArgs;
use crate::messages::hinted;
use crate::terminal::Terminal;

pub(crate) fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    match tree_kind(&args.path).map_err(hinted)? {
        TreeKind::Run => super::run::print_summary(&finish(&args.path, args).map_err(hinted)?, args.json),
        TreeKind::Tree => recover_tree::run(args),
    }
}

/// Makes what one killed run lacks.
pub(super) fn finish(run: &Path, args: &RecoverArgs) -> Result<BuiltRun, RunError> {
    let mut terminal = Terminal::new(args.json, 0);
    let built = recover_run(run, &|options| args.metrics.options_over(options), &mut terminal);
    terminal.finish();
    built
}
