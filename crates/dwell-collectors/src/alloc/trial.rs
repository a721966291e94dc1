//! Whether the recorder works here, found out with a program that every machine has.

use std::path::Path;
use std::process::{Command, Stdio};

use dwell_events::host::Outcome;
use dwell_ring::allocations::{ALLOCATION_DIR_VARIABLE, AllocationReader, DEFAULT_ALLOCATION_RING_BYTES};

const PROGRAM: &str = "/bin/cat";

/// Runs a program with the recorder in it, and counts its allocations.
pub(super) fn try_with_cat(library: &Path) -> Outcome {
    let dir = std::env::temp_dir().join(format!("dwell-alloc-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&dir) {
        return Outcome::fails(format!("making the folder {} failed with {error}", dir.display()));
    }
    let outcome = run(library, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn run(library: &Path, dir: &Path) -> Outcome {
    let mut command = Command::new(PROGRAM);
    command.arg("/dev/null").env("LD_PRELOAD", library).env(ALLOCATION_DIR_VARIABLE, dir);
    // With a ring as large as in a run: where files may not grow so large, a smaller one would say nothing.
    command.stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => count(dir),
        Ok(output) => {
            Outcome::fails(format!("{PROGRAM} was started with the recorder and ended with {}", output.status))
        }
        Err(error) => Outcome::fails(format!("starting {PROGRAM} failed with {error}")),
    }
}

fn count(dir: &Path) -> Outcome {
    let Some(ring) = crate::rings::in_dir(dir).into_iter().next() else {
        let mib = DEFAULT_ALLOCATION_RING_BYTES >> 20;
        return Outcome::fails(format!(
            "{PROGRAM} was started with the recorder and made no ring, which takes {mib} MiB"
        ));
    };
    let mut events = Vec::new();
    match AllocationReader::open(&ring) {
        Ok(mut reader) => reader.read(None, &mut events),
        Err(error) => return Outcome::fails(format!("opening the ring of {PROGRAM} failed with {error}")),
    }
    match events.len() {
        0 => Outcome::fails(format!("{PROGRAM} was run, and no call of it was recorded")),
        calls => Outcome::works(format!("{PROGRAM} was run, and {calls} calls of it were recorded")),
    }
}
