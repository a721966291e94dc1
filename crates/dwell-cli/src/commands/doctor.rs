//! `dwell doctor`: what can be observed on this machine, and why not the rest.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_collectors::{ALL, CheckPlace, check};
use dwell_events::CollectorName;
use dwell_experiment::run_small_model;
use dwell_host::{Probe, ProbeContext, ProbeKind, ProbeStatus, Root, probe_all, probe_names};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::messages::{EXIT_NOT_DONE, EXIT_WITH_LOSS, Failure, print_hints};
use crate::output::print_result;

const PRELOAD_LIBRARY: &str = "libdwell_preload.so";

/// Whether what was chosen works.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Works,
    Degraded,
    Fails,
}

#[derive(Serialize)]
struct Report<'a> {
    probes: &'a [Probe],
    chosen: &'a [&'static str],
    verdict: Verdict,
    exit_code: u8,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen_names(&args.collect)?;
    let probes = probes(&args.output);
    let verdict = verdict(&probes, &chosen);
    let exit_code = verdict.exit_code();
    if args.json {
        super::print_json(&Report { probes: &probes, chosen: &chosen, verdict, exit_code })?;
    } else {
        print_result(&report_text(&probes, &chosen, verdict))?;
        print_hints(&remedies(&probes));
    }
    Ok(ExitCode::from(exit_code))
}

impl Verdict {
    fn exit_code(self) -> u8 {
        match self {
            Verdict::Works => 0,
            Verdict::Degraded => EXIT_WITH_LOSS,
            Verdict::Fails => EXIT_NOT_DONE,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Works => "all of it works",
            Verdict::Degraded => "a part of it works",
            Verdict::Fails => "nothing of it works",
        }
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

/// The library that is built and installed beside this program.
fn preload_library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.with_file_name(PRELOAD_LIBRARY)).filter(|path| path.exists())
}

fn verdict(probes: &[Probe], chosen: &[&str]) -> Verdict {
    let chosen: Vec<&Probe> = probes.iter().filter(|probe| chosen.contains(&probe.name)).collect();
    if chosen.iter().all(|probe| probe.works()) {
        Verdict::Works
    } else if chosen.iter().all(|probe| probe.failure().is_some()) {
        Verdict::Fails
    } else {
        Verdict::Degraded
    }
}

fn report_text(probes: &[Probe], chosen: &[&str], verdict: Verdict) -> String {
    let groups = [
        ("collectors", ProbeKind::Collector),
        ("what else the kernel offers", ProbeKind::Facility),
        ("sensors", ProbeKind::Sensor),
    ];
    let width = probes.iter().map(|probe| probe.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, kind) in groups {
        text.push_str(&format!("{title}\n"));
        for probe in probes.iter().filter(|probe| probe.kind == kind) {
            let (name, status, found) = (probe.name, status_text(probe.status), &probe.found);
            text.push_str(&format!("  {name:<width$}  {status:<8}  {found}\n"));
        }
        text.push('\n');
    }
    text.push_str(&format!("chosen: {}; {}\n", chosen.join(", "), verdict.text()));
    text
}

fn status_text(status: ProbeStatus) -> &'static str {
    match status {
        ProbeStatus::Works => "works",
        ProbeStatus::Degraded => "degraded",
        ProbeStatus::Fails | ProbeStatus::Absent => "no",
    }
}

fn remedies(probes: &[Probe]) -> Vec<String> {
    let remedy = |probe: &Probe| Some(format!("for {}: {}", probe.name, probe.remedy.as_ref()?));
    probes.iter().filter_map(remedy).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use dwell_host::Outcome;

    use super::*;

    fn probe(name: &'static str, outcome: Outcome) -> Probe {
        Probe::new(name, ProbeKind::Facility, outcome)
    }

    #[test]
    fn the_verdict_is_of_the_chosen_alone() {
        let probes = [
            probe("good", Outcome::works("")),
            probe("half", Outcome::degraded("")),
            probe("bad", Outcome::fails("")),
            probe("none", Outcome::absent("")),
        ];
        let exit_code = |chosen: &[&str]| verdict(&probes, chosen).exit_code();
        assert_eq!(exit_code(&["good"]), 0);
        assert_eq!(exit_code(&["good", "half"]), 1);
        assert_eq!(exit_code(&["half"]), 1);
        assert_eq!(exit_code(&["good", "bad"]), 1);
        assert_eq!(exit_code(&["bad", "none"]), 2);
        assert_eq!(exit_code(&["half", "none"]), 1);
    }

    #[test]
    fn a_name_is_chosen_once_and_an_unknown_one_is_refused() {
        let names = |names: &[&str]| chosen_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["psi", "tensor_ops", "psi"]).unwrap(), ["psi", "tensor_ops"]);
        assert!(names(&["psi", "tensorops"]).unwrap_err().to_string().contains("tensorops"));
    }
}
