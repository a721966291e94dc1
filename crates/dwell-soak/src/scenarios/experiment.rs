//! `dwell run --config`: interrupted again and again, an experiment ends with exactly the planned runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dwell_store::{RunDir, RunState, runs_under};

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place, timed};
use crate::results::{self, RESULTS};
use crate::scenario::Scenario;
use crate::shape::RunShape;

const FILE: &str = "small.yaml";
const PROMPTS: &str = "- {id: one, category: short, text: a}\n";
/// How often it is interrupted at most; each time it resumes.
const ATTEMPTS: u32 = 4;

/// An experiment of a few runs, which are all the same.
pub(crate) struct Experiment {
    planned: usize,
    whole: RunShape,
    took: Duration,
}

impl Experiment {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        let place = Place::make(lab.path().join("reference-experiment"), "reference".to_owned())?;
        let (output, took) = timed(command(lab, &place, &[], 0))?;
        // 1: on a busy machine, no run counts.
        anyhow::ensure!(
            matches!(output.status.code(), Some(0 | 1)),
            "without any disturbance, the experiment failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let runs = runs_under(&place.path().join(RESULTS))?;
        let first = runs.first().map(|found| found.path.clone()).unwrap_or_default();
        Ok(Self { planned: runs.len(), whole: RunShape::read(&first)?, took })
    }
}

fn write_files(lab: &Lab, place: &Place) {
    let text = format!(
        "experiment: {{name: small}}\nmodels:\n  - {{id: tiny, path: '{}'}}\n\
         sweep: {{context_lengths: [256], output_tokens: [60], threads: [1], repetitions: 3, warmup_runs: 0}}\n\
         prompts: {{source: prompts.yaml, categories: [short]}}\ntelemetry: {{baseline_secs: 0.1}}\n\
         collectors: {{use: [tensor_ops, process], fallback: []}}\n",
        lab.model().display()
    );
    let _ = fs::write(place.path().join(FILE), text);
    let _ = fs::write(place.path().join("prompts.yaml"), PROMPTS);
}

fn command(lab: &Lab, place: &Place, behind: &[String], attempt: u32) -> Command {
    write_files(lab, place);
    let mut command = lab.dwell_behind(behind, place);
    command.args(["run", "--config", FILE]);
    // Killed before its record was written, it has nothing to resume and begins anew: it is known by its name.
    if attempt > 0 {
        command.arg("--resume");
    }
    command
}

impl Scenario for Experiment {
    fn name(&self) -> &'static str {
        "experiment"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], attempt: u32) -> Command {
        command(lab, place, behind, attempt)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    /// The last attempt, which nothing disturbs.
    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        Some(command(lab, place, &[], ATTEMPTS))
    }

    fn check(&self, lab: &Lab, place: &Place, _flushed: Option<&Path>, findings: &mut Findings) {
        results::check(lab, place, &|_| self.whole.clone(), findings);
        let runs = runs_under(&place.path().join(RESULTS)).unwrap_or_default();
        let is_complete =
            |run: &RunDir| run.marker().ok().flatten().is_some_and(|marker| marker.state == RunState::Complete);
        let complete = runs.iter().filter(|found| found.run.as_ref().is_ok_and(is_complete)).count();
        findings.need(complete == self.planned, Fault::Lost, || {
            format!("{complete} complete runs of {} planned", self.planned)
        });
    }
}
