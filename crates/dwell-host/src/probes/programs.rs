//! Programs: loading the recorder into one.

use std::path::Path;
use std::process::{Command, Stdio};

use dwell_events::host::Outcome;

use super::ProbeContext;

const SHOWS_ITS_MAPPINGS: [&str; 2] = ["/bin/cat", "/proc/self/maps"];

/// The recorder loaded into another program.
pub(super) fn preload(context: &ProbeContext) -> Outcome {
    match &context.preload_library {
        Some(library) => load(library),
        None => Outcome::absent("libdwell_preload.so is neither beside the program dwell nor in ../lib/dwell")
            .remedy("put it there; `cargo build --release -p dwell-preload` makes it, and a wheel of dwell has it"),
    }
}

fn load(library: &Path) -> Outcome {
    let [program, argument] = SHOWS_ITS_MAPPINGS;
    let output = Command::new(program).arg(argument).env("LD_PRELOAD", library).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Outcome::fails(format!("starting {program} failed with {error}")),
    };
    // The kernel shows paths without links in them.
    let library = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let is_mapped = String::from_utf8_lossy(&output.stdout).contains(name.as_ref());
    match output.status.success() && is_mapped {
        true => Outcome::works(format!("{name} was loaded into {program}")),
        // The loader says why and goes on.
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().lines().collect::<Vec<_>>().join(" / ");
            Outcome::fails(format!("{name} was not loaded into {program}: {said}"))
        }
    }
}
