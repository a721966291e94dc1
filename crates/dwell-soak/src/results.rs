//! Results of dwell, compared with what the same command recorded undisturbed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_store::{RunDir, RunState, runs_under};

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place, timed};
use crate::shape::RunShape;

/// Name of the folder of results in that of a trial.
pub(crate) const RESULTS: &str = "results";

/// `dwell recover` on the results, if there are any.
pub(crate) fn recovery(lab: &Lab, place: &Place) -> Option<Command> {
    let results = place.path().join(RESULTS);
    let mut command = lab.dwell(place);
    command.arg("recover").arg(&results);
    results.exists().then_some(command)
}

/// Looks at every run: it verifies, is what the undisturbed run recorded as far as it came, and is complete only if it has
/// all of it.
pub(crate) fn check(lab: &Lab, place: &Place, whole: &dyn Fn(&RunDir) -> RunShape, findings: &mut Findings) {
    findings.outcome = "never began";
    let results = place.path().join(RESULTS);
    if !results.exists() {
        return;
    }
    for found in runs_under(&results).unwrap_or_default() {
        match &found.run {
            Ok(run) => check_run(run, whole, findings),
            // A run that was killed before it wrote what it is has recorded nothing.
            Err(error) if has_recorded(&found.path) => {
                findings.add(Fault::Damaged, format!("{:?}: {error}", found.path))
            }
            Err(_) => {}
        }
    }
    verify(lab, place, findings);
}

fn has_recorded(run: &Path) -> bool {
    run.join("raw/run.json").exists()
}

fn check_run(run: &RunDir, whole: &dyn Fn(&RunDir) -> RunShape, findings: &mut Findings) {
    let Ok(Some(marker)) = run.marker() else { return };
    if !marker.state.is_final() {
        findings
            .need(!has_recorded(run.path()), Fault::Lost, || format!("{:?} is {}", run.path(), marker.state.name()));
        return;
    }
    let shape = match RunShape::read(run.path()) {
        Ok(shape) => shape,
        Err(error) => return findings.add(Fault::Damaged, format!("{error:#}")),
    };
    let whole = whole(run);
    let sizes = || format!("{:?} has {} of {}", run.path(), shape.size(), whole.size());
    findings.need(shape.begins(&whole), Fault::Differs, sizes);
    findings.outcome = marker.state.name();
    if marker.state == RunState::Complete {
        findings.need(shape == whole, Fault::FalselyComplete, sizes);
    }
}

/// Whatever is finished must verify.
fn verify(lab: &Lab, place: &Place, findings: &mut Findings) {
    let mut command = lab.dwell(place);
    command.arg("verify").arg(place.path().join(RESULTS)).arg("--json");
    match timed(command) {
        Ok((output, _)) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            findings.need(!said.contains("\"damaged\"") && output.status.code().is_some(), Fault::Damaged, || {
                format!("dwell verify said {said}")
            });
        }
        Err(error) => findings.add(Fault::Damaged, format!("{error:#}")),
    }
}

/// Recovers a copy of what had been flushed and compares: nothing of it may be missing in the run.
pub(crate) fn check_flushed(lab: &Lab, place: &Place, run: &str, flushed: &Path, findings: &mut Findings) {
    let mut command = lab.dwell(place);
    command.arg("-q").arg("recover").arg(flushed);
    if timed(command).is_err() {
        return;
    }
    let shape = |results: &Path| only_run(results).and_then(|run| RunShape::read(&run).ok()).unwrap_or_default();
    let (before, after) = (shape(flushed), shape(&place.path().join(RESULTS)));
    findings.need(after.holds(&before), Fault::Lost, || {
        format!("{run} has {}, and {} had been flushed", after.size(), before.size())
    });
}

/// The first run of a tree.
fn only_run(results: &Path) -> Option<PathBuf> {
    let models = fs::read_dir(results).ok()?.flatten().filter(|entry| entry.path().is_dir());
    models.flat_map(|model| fs::read_dir(model.path()).into_iter().flatten().flatten()).next().map(|run| run.path())
}
