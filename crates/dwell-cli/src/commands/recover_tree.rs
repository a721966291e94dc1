//! `dwell recover` on a folder of runs: one line per run that was not finished.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use dwell_build::{BuildError, BuiltRun};
use dwell_events::{Hint, Severity};
use dwell_metadata::RunRecord;
use dwell_report::text::{count, counted, totals};
use dwell_store::{FoundRun, RunDir, StoreError, runs_under};
use serde::Serialize;

use super::recover::finish;
use crate::args::RecoverArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::{print_result, unprinted};

#[derive(Default, Serialize)]
struct TreeRecovery {
    /// Runs that needed nothing.
    finished: u64,
    runs: Vec<RunRecovery>,
}

/// A run that was not finished.
#[derive(Serialize)]
struct RunRecovery {
    path: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Outcome {
    /// Nothing is missing.
    Complete {
        accesses: u64,
    },
    /// It has its tables, but not all of what should be in them.
    Partial {
        accesses: u64,
        lost: Vec<String>,
    },
    /// Somebody is recording or recovering it.
    AtWork {
        pid: u32,
    },
    Failed {
        error: String,
        hints: Vec<String>,
    },
}

pub(crate) fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let mut recovery = TreeRecovery::default();
    for found in runs_under(&args.path).map_err(hinted)? {
        let path = found.path.strip_prefix(&args.path).unwrap_or(&found.path).to_string_lossy().into_owned();
        match recover(&found, args) {
            Some(outcome) => recovery.runs.push(RunRecovery { path, outcome }),
            None => recovery.finished += 1,
        }
    }
    let printed = if args.json { super::print_json(&recovery) } else { print_result(&text(&recovery)) };
    printed.map_err(|error| unprinted(&error, &args.path))?;
    if !args.json {
        print_hints(&recovery.hints());
    }
    Ok(if recovery.has_loss() { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// `None` if the run is finished already.
fn recover(found: &FoundRun, args: &RecoverArgs) -> Option<Outcome> {
    let run = match &found.run {
        Ok(run) => run,
        Err(error) => return Some(Outcome::failed(error)),
    };
    match is_finished(run) {
        Ok(true) => return None,
        Ok(false) => {}
        Err(error) => return Some(Outcome::failed(&error)),
    }
    Some(match finish(&found.path, args) {
        Ok(built) => Outcome::of(&built),
        Err(BuildError::StillRecording { pid, .. }) => Outcome::AtWork { pid },
        Err(error) => Outcome::failed(&error),
    })
}

/// What dwell did not record, it cannot finish.
fn is_finished(run: &RunDir) -> Result<bool, StoreError> {
    Ok(match run.marker()? {
        Some(marker) => marker.state.is_final() && run.manifest_json().is_file(),
        None => run.manifest_json().is_file() || !run.raw().join(RunRecord::FILE_NAME).is_file(),
    })
}

impl Outcome {
    fn of(built: &BuiltRun) -> Self {
        let accesses = built.metrics.trace_rows;
        let lost = built.losses.iter().filter(|loss| loss.kind.severity() == Severity::DataLoss);
        let lost = lost.map(|loss| format!("{} × {}", count(loss.count), loss.kind.name())).collect();
        if built.is_partial { Self::Partial { accesses, lost } } else { Self::Complete { accesses } }
    }

    fn failed(error: &(impl std::error::Error + Hint)) -> Self {
        Self::Failed { error: error.to_string(), hints: error.hints() }
    }
}

impl TreeRecovery {
    /// Each once, however many runs it is for.
    fn hints(&self) -> Vec<String> {
        let of_run = |run: &RunRecovery| match &run.outcome {
            Outcome::Failed { hints, .. } => hints.clone(),
            _ => Vec::new(),
        };
        let distinct: BTreeSet<String> = self.runs.iter().flat_map(of_run).collect();
        distinct.into_iter().collect()
    }

    fn has_loss(&self) -> bool {
        self.runs.iter().any(|run| matches!(run.outcome, Outcome::Partial { .. } | Outcome::Failed { .. }))
    }
}

fn text(recovery: &TreeRecovery) -> String {
    let mut text = String::new();
    for RunRecovery { path, outcome } in &recovery.runs {
        let (what, line) = match outcome {
            Outcome::Complete { accesses } => ("complete", accesses_text(*accesses)),
            Outcome::Partial { accesses, lost } => {
                ("partial", format!("{}, lost {}", accesses_text(*accesses), lost.join(", ")))
            }
            Outcome::AtWork { pid } => ("at work", format!("process {pid} has not ended")),
            Outcome::Failed { error, .. } => ("failed", error.clone()),
        };
        let _ = writeln!(text, "{what:<9} {path}: {line}");
    }
    text + &total_line(recovery)
}

fn accesses_text(accesses: u64) -> String {
    counted(accesses, "access")
}

fn total_line(recovery: &TreeRecovery) -> String {
    let of = |is_meant: fn(&Outcome) -> bool| recovery.runs.iter().filter(|run| is_meant(&run.outcome)).count() as u64;
    let totals = totals(&[
        (of(|outcome| matches!(outcome, Outcome::Complete { .. })), "complete"),
        (of(|outcome| matches!(outcome, Outcome::Partial { .. })), "partial"),
        (of(|outcome| matches!(outcome, Outcome::Failed { .. })), "failed"),
        (of(|outcome| matches!(outcome, Outcome::AtWork { .. })), "still at work"),
        (recovery.finished, "finished before"),
    ]);
    let is_idle = recovery.runs.iter().all(|run| matches!(run.outcome, Outcome::AtWork { .. }));
    match (is_idle, totals.is_empty()) {
        (true, true) => "nothing to recover: no runs\n".to_owned(),
        (true, false) => format!("nothing to recover: {totals}\n"),
        (false, _) => format!("{totals}\n"),
    }
}
