//! `dwell run` with the embedded engine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::finding::Findings;
use crate::lab::{Lab, Place, succeeds};
use crate::results::{self, RESULTS};
use crate::scenario::Scenario;
use crate::shape::RunShape;

/// Tokens that are generated: recording takes longer than beginning and building.
const TOKENS: &str = "1500";
/// Measured: the tables of such a run and its raw streams take 3 MB, the ring 8 MB.
const DISK_BYTES: u64 = 14 << 20;

/// A run of the embedded engine.
pub(crate) struct EmbeddedRun {
    whole: RunShape,
    took: Duration,
}

impl EmbeddedRun {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        let place = Place::make(lab.path().join("reference-run"), "reference".to_owned())?;
        let took = succeeds(command(lab, &place, &[]))?;
        Ok(Self { whole: RunShape::read(&place.path().join(RESULTS).join("tiny/run"))?, took })
    }
}

fn command(lab: &Lab, place: &Place, behind: &[String]) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args(["run", "--prompt", "a", "--max-tokens", TOKENS, "--context-length", "2048", "--threads", "1"]);
    command.args(["--baseline-secs", "0", "--ignore-end", "--run-id", "run", "-o", RESULTS, "--model"]);
    command.arg(lab.model());
    command
}

impl Scenario for EmbeddedRun {
    fn name(&self) -> &'static str {
        "run"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        command(lab, place, behind)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(RESULTS))
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(DISK_BYTES)
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        results::check(lab, place, &|_| self.whole.clone(), findings);
        if let Some(flushed) = flushed {
            results::check_flushed(lab, place, "the run", flushed, findings);
        }
    }
}
