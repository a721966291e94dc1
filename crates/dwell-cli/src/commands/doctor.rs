//! `dwell doctor`: what can be observed on this machine, and why not the rest.

use std::path::Path;
use std::process::ExitCode;

use dwell_collectors::{ALL, CheckPlace, check};
use dwell_events::CollectorName;
use dwell_events::host::Probe;
use dwell_experiment::run_small_model;
use dwell_host::{ProbeContext, Root, probe_all, probe_names};
use dwell_report::text::{DoctorProgram, DoctorReport, DoctorVerdict};
use dwell_worker::{InstalledProgram, installed_programs, preload_library};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::messages::{EXIT_NOT_DONE, EXIT_WITH_LOSS, Failure, print_hints};
use crate::output::{print_result, step};

#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    report: &'a DoctorReport,
    exit_code: u8,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen_names(&args.collect)?;
    let probes = step("trying collectors, kernel and sensors", || probes(&args.output));
    let programs = step("looking for programs of engines", installed_programs);
    let report = DoctorReport::new(probes, chosen, programs.into_iter().map(program_line).collect());
    let exit_code = exit_code(report.verdict());
    if args.json {
        super::print_json(&JsonReport { report: &report, exit_code })?;
    } else {
        print_result(&report.text())?;
        print_hints(&report.remedies());
    }
    Ok(ExitCode::from(exit_code))
}

fn program_line(program: InstalledProgram) -> DoctorProgram {
    DoctorProgram {
        engine: program.engine,
        names: program.names,
        program: program.program,
        version: program.version,
        install: program.install,
    }
}

fn exit_code(verdict: DoctorVerdict) -> u8 {
    match verdict {
        DoctorVerdict::Works => 0,
        DoctorVerdict::Degraded => EXIT_WITH_LOSS,
        DoctorVerdict::Fails => EXIT_NOT_DONE,
    }
}

/// The chosen names, each once, or which of them is none.
fn chosen_names(wanted: &[String]) -> Result<Vec<&'static str>, Failure> {
    let mut known = CollectorName::NAMES.to_vec();
    known.extend(probe_names());
    let mut chosen = Vec::new();
    for name in wanted {
        let Some(&found) = known.iter().find(|known| *known == name) else {
            let failure = Failure::new(format!("choosing what has to work found no probe {name:?}"));
            return Err(failure.hint(format!("--collect takes {}", known.join(", "))));
        };
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

fn probes(folder: &Path) -> Vec<Probe> {
    let place = CheckPlace { root: Root::default(), results: folder, run_small_model: &run_small_model };
    let mut probes: Vec<Probe> = ALL.iter().map(|collector| check(*collector, &place)).collect();
    probes.extend(probe_all(&ProbeContext { preload_library: preload_library(), ..ProbeContext::default() }));
    probes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn a_name_is_chosen_once_and_an_unknown_one_is_refused() {
        let names = |names: &[&str]| chosen_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["psi", "tensor_ops", "psi"]).unwrap(), ["psi", "tensor_ops"]);
        assert!(names(&["psi", "tensorops"]).unwrap_err().to_string().contains("tensorops"));
    }
}
