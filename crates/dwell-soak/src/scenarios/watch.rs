//! `dwell watch` of a program that it starts.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_store::{RawReader, open_table_columns};

use crate::finding::{Fault, Findings};
use crate::lab::{Lab, Place};
use crate::scenario::Scenario;

const TABLE: &str = "memory.parquet";
const STREAM: &str = "memory.parquet.arrows";
const WATCHED_S: f64 = 1.2;
const DISK_BYTES: u64 = 128 << 10;

/// A watch that writes a table.
pub(crate) struct Watch;

impl Scenario for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        let mut command = lab.dwell_behind(behind, place);
        command.args(["watch", "--interval", "0.005", "-o", TABLE, "--", "sleep", &WATCHED_S.to_string()]);
        command
    }

    fn duration(&self) -> Duration {
        Duration::from_secs_f64(WATCHED_S)
    }

    /// dwell does not end what it watches.
    fn may_outlive(&self, role: &str) -> bool {
        role == "sleep"
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(STREAM))
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(DISK_BYTES)
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        let mut command = lab.dwell(place);
        command.args(["recover", TABLE]);
        place.path().join(STREAM).exists().then_some(command)
    }

    fn check(&self, _lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        let before = flushed.map_or(0, |folder| stream_rows(&folder.join(STREAM)));
        let found = table_rows(place.path());
        findings.outcome = if found.is_some() { "recovered" } else { "never began" };
        findings.need(found.unwrap_or(0) >= before, Fault::Lost, || {
            format!("{found:?} rows, and {before} had been flushed")
        });
        // A stream without its header holds nothing and cannot become a table.
        let left = place.path().join(STREAM);
        findings.need(!left.exists() || RawReader::open(&left).is_err(), Fault::Litter, || format!("{left:?} is left"));
    }
}

fn stream_rows(path: &Path) -> usize {
    RawReader::open(path).map_or(0, |reader| reader.flatten().map(|batch| batch.num_rows()).sum())
}

fn table_rows(folder: &Path) -> Option<usize> {
    let reader = open_table_columns(folder, Table::Memory, &["pid"]).ok()?;
    Some(reader.flatten().map(|batch| batch.num_rows()).sum())
}
