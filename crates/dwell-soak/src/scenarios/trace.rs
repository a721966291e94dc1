//! `dwell trace` of a program that nobody changed: its accesses, its allocations and its pages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dwell_events::schema::{Table, TableSpec};
use dwell_store::RunDir;

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place, succeeds};
use crate::results::{self, RESULTS};
use crate::scenario::Scenario;
use crate::shape::{RunShape, row_count};

/// Where the cache has a program of llama.cpp.
const PROGRAM: &str = ".cache/dwell/llama-tools/bin/llama-completion";
const TOKENS: &str = "150";
/// Below the results.
const RUN: &str = "tiny/run";
/// The collector's table; its columns are not looked at.
static LIVES: TableSpec = TableSpec { name: "allocation_lives", columns: &[] };

/// A trace of llama-completion.
pub(crate) struct Trace {
    program: PathBuf,
    took: Duration,
}

impl Trace {
    /// `None` if the program is not there.
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Option<Self>> {
        let program = std::env::home_dir().unwrap_or_default().join(PROGRAM);
        if !program.exists() {
            return Ok(None);
        }
        let place = Place::make(lab.path().join("reference-trace"), "reference".to_owned())?;
        let took = succeeds(command(lab, &place, &[], &program))?;
        anyhow::ensure!(lives(&place.path().join(RESULTS)) > 0, "the undisturbed trace has no allocations");
        Ok(Some(Self { program, took }))
    }
}

fn command(lab: &Lab, place: &Place, behind: &[String], program: &Path) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args(["trace", "--collect", "tensor_ops,process,alloc,pages", "--run-id", "run", "-o", RESULTS]);
    command.args(["--baseline-secs", "0", "--model"]).arg(lab.model()).arg("--").arg(program).arg("-m");
    command.arg(lab.model()).args(["-p", "a", "-n", TOKENS, "-c", "256", "-t", "1", "-no-cnv", "--ignore-eos"]);
    command
}

/// Rows of the table of allocations of a tree's run.
fn lives(results: &Path) -> u64 {
    row_count(&results.join(RUN), Table::Own(&LIVES))
}

impl Scenario for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        command(lab, place, behind, &self.program)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(RESULTS))
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    /// What the program computes before its model is there differs from run to run, so nothing is compared with another run.
    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        let whole = |run: &RunDir| RunShape::read(run.path()).unwrap_or_default();
        results::check(lab, place, &whole, findings);
        let Some(flushed) = flushed else { return };
        results::check_flushed(lab, place, "the trace", flushed, findings);
        let (before, after) = (lives(flushed), lives(&place.path().join(RESULTS)));
        findings.need(after >= before, Fault::Lost, || format!("{after} allocations, and {before} had been flushed"));
    }
}
