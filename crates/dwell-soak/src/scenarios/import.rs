//! `dwell import lackey`: an import that was killed is begun again.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_store::{RunState, open_table_columns, runs_under};

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place, succeeds};
use crate::results::RESULTS;
use crate::scenario::Scenario;

const ACCESSES: u64 = 300_000;
/// Measured: the run takes 5 MB.
const DISK_BYTES: u64 = 8 << 20;

/// An import of a recording.
pub(crate) struct Import {
    took: Duration,
    rows: usize,
}

impl Import {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        fs::write(recording(lab), lackey_text())?;
        let place = Place::make(lab.path().join("reference-import"), "reference".to_owned())?;
        let took = succeeds(command(lab, &place, &[], 0))?;
        let rows = trace_rows(&place.path().join(RESULTS).join("imported/import-0")).unwrap_or(0);
        anyhow::ensure!(rows > 0, "the undisturbed import has no rows");
        Ok(Self { took, rows })
    }
}

fn recording(lab: &Lab) -> std::path::PathBuf {
    lab.path().join("recording.lackey")
}

fn lackey_text() -> String {
    let mut text = String::from("==7== Lackey, an example Valgrind tool\n");
    for access in 0..ACCESSES {
        let kind = if access % 3 == 0 { 'S' } else { 'L' };
        // Writing to a String never fails.
        let _ = writeln!(text, " {kind} {:08x},8", 0x0400_0000 + access.wrapping_mul(2_654_435_761) % (1 << 22) * 8);
    }
    text
}

fn command(lab: &Lab, place: &Place, behind: &[String], attempt: u32) -> Command {
    let mut command = lab.dwell_behind(behind, place);
    command.args(["import", "lackey"]).arg(recording(lab));
    command.args(["-o", RESULTS, "--run-id", &format!("import-{attempt}")]);
    command
}

fn trace_rows(run: &Path) -> Option<usize> {
    let reader = open_table_columns(run, Table::Trace, &["size_bytes"]).ok()?;
    reader.map(|batch| batch.map(|batch| batch.num_rows())).sum::<Result<usize, _>>().ok()
}

impl Scenario for Import {
    fn name(&self) -> &'static str {
        "import"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], attempt: u32) -> Command {
        command(lab, place, behind, attempt)
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn attempts(&self) -> u32 {
        2
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(DISK_BYTES)
    }

    /// An import that was killed cannot be resumed; `dwell recover` says how to remove it, and this does it.
    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        let killed = runs_under(&place.path().join(RESULTS)).unwrap_or_default().into_iter().filter(|found| {
            let marker = found.run.as_ref().ok().and_then(|run| run.marker().ok().flatten());
            marker.is_none_or(|marker| !marker.state.is_final())
        });
        killed.for_each(|found| _ = fs::remove_dir_all(found.path));
        crate::results::recovery(lab, place)
    }

    fn check(&self, _lab: &Lab, place: &Place, _flushed: Option<&Path>, findings: &mut Findings) {
        findings.outcome = "never began";
        for found in runs_under(&place.path().join(RESULTS)).unwrap_or_default() {
            let Ok(run) = &found.run else { continue };
            let Ok(Some(marker)) = run.marker() else { continue };
            findings.outcome = marker.state.name();
            let rows = trace_rows(run.path());
            findings.need(
                marker.state != RunState::Complete || rows == Some(self.rows),
                Fault::FalselyComplete,
                || format!("{:?} has {rows:?} of {} rows", run.path(), self.rows),
            );
        }
    }
}
