//! Programs: sampling one, loading the recorder into one.

use std::path::Path;
use std::process::{Command, Stdio};

use dwell_events::Hint;
use dwell_process::Sampler;

use super::{Outcome, ProbeContext};

const SHOWS_ITS_MAPPINGS: [&str; 2] = ["/bin/cat", "/proc/self/maps"];

/// A sample of this process.
pub(super) fn process() -> Outcome {
    let mut sampler = match Sampler::new(&[("probe", std::process::id())]) {
        Ok(sampler) => sampler,
        Err(error) => {
            let outcome = Outcome::fails(error.to_string());
            return match error.hints().into_iter().next() {
                Some(hint) => outcome.remedy(hint),
                None => outcome,
            };
        }
    };
    let mut rows = Vec::new();
    sampler.sample_into(&mut rows);
    match rows.first() {
        Some(row) if row.rss_bytes > 0 => {
            Outcome::works(format!("a sample of this process: {} bytes resident", row.rss_bytes))
        }
        Some(_) => Outcome::fails("a sample of this process says that it has no memory"),
        None => Outcome::fails("no sample of this process could be taken"),
    }
}

/// The recorder loaded into another program.
pub(super) fn preload(context: &ProbeContext) -> Outcome {
    match &context.preload_library {
        Some(library) => load(library),
        None => Outcome::absent("there is no libdwell_preload.so beside the program dwell")
            .remedy("cargo build --release -p dwell-preload"),
    }
}

fn load(library: &Path) -> Outcome {
    let [program, argument] = SHOWS_ITS_MAPPINGS;
    let output = Command::new(program).arg(argument).env("LD_PRELOAD", library).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Outcome::fails(format!("starting {program} failed with {error}")),
    };
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
