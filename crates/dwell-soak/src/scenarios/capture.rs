//! `dwell capture` with the embedded engine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dwell_tensors::TensorFile;

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place, succeeds};
use crate::scenario::Scenario;

pub(super) const STREAM: &str = "gen.tensors";
const TOKENS: &str = "3000";
/// Measured: the stream takes 1.8 MB.
const DISK_BYTES: u64 = 3 << 20;

/// A capture.
pub(crate) struct Capture {
    whole: Vec<Packet>,
    took: Duration,
}

/// A tensor: its name, its step and its elements.
pub(super) type Packet = (String, u64, Vec<u8>);

impl Capture {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        let place = Place::make(lab.path().join("reference-capture"), "reference".to_owned())?;
        let took = succeeds(command(lab, &place, &[]))?;
        Ok(Self { whole: packets(&place.path().join(STREAM))?, took })
    }
}

fn command(lab: &Lab, place: &Place, behind: &[String]) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args(["capture", "--prompt", "a", "--max-tokens", TOKENS, "--context-length", "4096", "--threads", "1"]);
    command.args(["--ignore-end", "-o", STREAM, "--model"]).arg(lab.model());
    command
}

pub(super) fn packets(path: &Path) -> anyhow::Result<Vec<Packet>> {
    let file = TensorFile::open(path)?;
    let packet = |(index, entry)| Ok((file.name(entry).to_owned(), file.head(entry).step, file.read_elements(index)?));
    file.packets().iter().enumerate().map(packet).collect()
}

impl Scenario for Capture {
    fn name(&self) -> &'static str {
        "capture"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        command(lab, place, behind)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(STREAM))
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(DISK_BYTES)
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        recovery(lab, place)
    }

    fn check(&self, _lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        check_stream(&self.whole, place, flushed, findings);
    }
}

/// `dwell tensors recover` of the stream, if there is one.
pub(super) fn recovery(lab: &Lab, place: &Place) -> Option<Command> {
    let mut command = lab.dwell(place);
    command.args(["tensors", "recover", STREAM]);
    place.path().join(STREAM).exists().then_some(command)
}

/// What is in the stream is how the undisturbed one begins, and has all that was flushed.
pub(super) fn check_stream(whole: &[Packet], place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
    findings.outcome = "never began";
    let before = flushed.and_then(|folder| packets(&folder.join(STREAM)).ok()).unwrap_or_default();
    let found = match packets(&place.path().join(STREAM)) {
        Ok(found) => found,
        Err(error) => return findings.need(before.is_empty(), Fault::Lost, || format!("{STREAM}: {error:#}")),
    };
    findings.outcome = if found.len() == whole.len() { "complete" } else { "partial" };
    let sizes = |what: &str, count: usize| format!("{} tensors of {count} {what}", found.len());
    findings.need(whole.starts_with(&found), Fault::Differs, || sizes("undisturbed", whole.len()));
    findings.need(found.len() >= before.len(), Fault::Lost, || sizes("flushed", before.len()));
}
