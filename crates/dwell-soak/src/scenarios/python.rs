//! A capture from Python, in the process of the model.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::capture::{Packet, STREAM, check_stream, packets, recovery};
use crate::finding::Findings;
use crate::lab::{Lab, Place, succeeds};
use crate::scenario::Scenario;

const TOKENS: &str = "40";
/// Where the cache has a Python with PyTorch.
const PYTHON: &str = ".cache/dwell/venv-torch/bin/python";
/// The package and the script, from this crate's folder.
const PACKAGE: &str = "../../python";
const SCRIPT: &str = "../../python/tests/generate.py";
/// The compiled part, in the package.
const COMPILED: &str = "dwell/_core.abi3.so";

/// A capture in Python.
pub(crate) struct PythonCapture {
    python: PathBuf,
    whole: Vec<Packet>,
    took: Duration,
}

impl PythonCapture {
    /// `None` if PyTorch or the package is not there.
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Option<Self>> {
        let python = std::env::home_dir().unwrap_or_default().join(PYTHON);
        if !python.exists() || !here(PACKAGE).join(COMPILED).exists() {
            return Ok(None);
        }
        let place = Place::make(lab.path().join("reference-python"), "reference".to_owned())?;
        let took = succeeds(command(lab, &place, &[], &python))?;
        Ok(Some(Self { python, whole: packets(&place.path().join(STREAM))?, took }))
    }
}

fn here(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn command(lab: &Lab, place: &Place, behind: &[String], python: &Path) -> Command {
    let mut command = lab.program_behind(behind, python, place);
    command.arg(here(SCRIPT)).args([STREAM, TOKENS]).env("PYTHONPATH", here(PACKAGE));
    // With more threads, sums of the model could differ in their last bits.
    command.env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

impl Scenario for PythonCapture {
    fn name(&self) -> &'static str {
        "capture in Python"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        command(lab, place, behind, &self.python)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(STREAM))
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        recovery(lab, place)
    }

    fn check(&self, _lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        check_stream(&self.whole, place, flushed, findings);
    }
}
