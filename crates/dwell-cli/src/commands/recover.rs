//! `dwell recover`: finishes a run that was killed, every such run of a tree, or the table of a watch.

use std::path::Path;
use std::process::ExitCode;

use dwell_build::{BuildError, BuildSetup, BuiltRun, recover_run};
use dwell_report::RUN_VIEWS;
use dwell_report::text::counted;
use dwell_store::{RecoveredLog, TreeKind, recover_memory_log, unfinished_memory_log};

use super::recover_tree;
use crate::args::RecoverArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted};
use crate::output::{print_result, step, unprinted};
use crate::terminal::Terminal;

pub(crate) fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    if let Some(table) = unfinished_memory_log(&args.path) {
        return finish_watch(&table, args);
    }
    match super::kind_at(&args.path)? {
        TreeKind::Run => super::run::print_summary(&finish(&args.path, args).map_err(hinted)?, args.json),
        TreeKind::Tree => recover_tree::run(args),
    }
}

/// Makes the table of a watch that was killed.
fn finish_watch(table: &Path, args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let RecoveredLog { rows, damaged_batches } = recover_memory_log(table).map_err(hinted)?;
    let printed = match args.json {
        true => super::print_json(&serde_json::json!({ "rows": rows, "damaged_batches": damaged_batches })),
        false => print_result(&format!("{}\n{}\n", counted(rows, "row"), table.display())),
    };
    printed.map_err(|error| unprinted(&error, table))?;
    Ok(if damaged_batches > 0 { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// Makes what one killed run lacks.
pub(super) fn finish(run: &Path, args: &RecoverArgs) -> Result<BuiltRun, BuildError> {
    let mut terminal = Terminal::new(args.json, "", 0);
    let setup = BuildSetup { adjust: &|options| args.metrics.options_over(options), views: &RUN_VIEWS };
    let built = step("making tables and metrics", || recover_run(run, &setup, &mut terminal));
    terminal.finish();
    built
}
