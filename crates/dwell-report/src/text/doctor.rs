//! What can be observed on a machine, as `dwell doctor` says it.

use std::path::PathBuf;

use dwell_events::host::{Probe, ProbeKind, ProbeStatus};
use serde::Serialize;

/// Whether what was chosen works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DoctorVerdict {
    /// All of it.
    Works,
    /// A part of it.
    Degraded,
    /// Nothing of it.
    Fails,
}

impl DoctorVerdict {
    fn of(probes: &[Probe], chosen: &[&str]) -> Self {
        let chosen: Vec<&Probe> = probes.iter().filter(|probe| chosen.contains(&probe.name)).collect();
        if chosen.iter().all(|probe| probe.works()) {
            DoctorVerdict::Works
        } else if chosen.iter().all(|probe| probe.failure().is_some()) {
            DoctorVerdict::Fails
        } else {
            DoctorVerdict::Degraded
        }
    }

    fn text(self) -> &'static str {
        match self {
            DoctorVerdict::Works => "all of it works",
            DoctorVerdict::Degraded => "a part of it works",
            DoctorVerdict::Fails => "nothing of it works",
        }
    }
}

/// The program of an engine, whether it is installed or not.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorProgram {
    /// The engine.
    pub engine: &'static str,
    /// Names that it is looked for by.
    pub names: &'static [&'static str],
    /// Where it was found.
    pub program: Option<PathBuf>,
    /// What it says of its version.
    pub version: Option<String>,
    /// How to install it, where it was not found.
    pub install: Option<&'static str>,
}

impl DoctorProgram {
    fn found(&self) -> String {
        match (&self.program, &self.version) {
            (Some(program), Some(version)) => format!("{}, version {version}", program.display()),
            (Some(program), None) => format!("{}, which says no version", program.display()),
            (None, _) => format!("no {} in PATH", self.names.join(", ")),
        }
    }

    fn remedy(&self) -> Option<String> {
        self.install.map(|install| format!("for --engine {}: {install}", self.engine))
    }
}

/// What can be observed on a machine, and why not the rest.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    probes: Vec<Probe>,
    /// Programs that dwell can start a model with. None is needed: the embedded engine has none.
    engines: Vec<DoctorProgram>,
    chosen: Vec<&'static str>,
    verdict: DoctorVerdict,
}

impl DoctorReport {
    /// From all probes, the names of those that have to work, and the programs of engines.
    pub fn new(probes: Vec<Probe>, chosen: Vec<&'static str>, engines: Vec<DoctorProgram>) -> Self {
        let verdict = DoctorVerdict::of(&probes, &chosen);
        Self { probes, engines, chosen, verdict }
    }

    /// Whether what was chosen works.
    pub fn verdict(&self) -> DoctorVerdict {
        self.verdict
    }

    /// A line for each probe, with a second one for the basis and the cost of each collector; then the verdict.
    pub fn text(&self) -> String {
        let groups = [
            ("collectors", ProbeKind::Collector),
            ("what else the kernel offers", ProbeKind::Facility),
            ("sensors", ProbeKind::Sensor),
        ];
        let width = self.probes.iter().map(|probe| probe.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (title, kind) in groups {
            text.push_str(&format!("{title}\n"));
            for probe in self.probes.iter().filter(|probe| probe.kind == kind) {
                let (name, status, found) = (probe.name, status_text(probe.status), &probe.found);
                text.push_str(&format!("  {name:<width$}  {status:<8}  {found}\n"));
                if let (Some(basis), Some(cost)) = (probe.basis, probe.cost) {
                    text.push_str(&format!("  {:<width$}  {:<8}  basis {}; cost: {cost}\n", "", "", basis.name()));
                }
            }
            text.push('\n');
        }
        text.push_str("external engines\n");
        for engine in &self.engines {
            let status = if engine.program.is_some() { "found" } else { "no" };
            text.push_str(&format!("  {:<width$}  {status:<8}  {}\n", engine.engine, engine.found()));
        }
        text.push('\n');
        text.push_str(&format!("chosen: {}; {}\n", self.chosen.join(", "), self.verdict.text()));
        text
    }

    /// What may make more of it work.
    pub fn remedies(&self) -> Vec<String> {
        let remedy = |probe: &Probe| Some(format!("for {}: {}", probe.name, probe.remedy.as_ref()?));
        let engines = self.engines.iter().filter_map(DoctorProgram::remedy);
        self.probes.iter().filter_map(remedy).chain(engines).collect()
    }
}

fn status_text(status: ProbeStatus) -> &'static str {
    match status {
        ProbeStatus::Works => "works",
        ProbeStatus::Degraded => "degraded",
        ProbeStatus::Fails | ProbeStatus::Absent => "no",
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::Basis;
    use dwell_events::host::Outcome;

    use super::*;

    fn probes() -> Vec<Probe> {
        let facility = |name, outcome| Probe::new(name, ProbeKind::Facility, outcome);
        let collector = Probe::new("seen", ProbeKind::Collector, Outcome::works("80 accesses"));
        vec![
            Probe { basis: Some(Basis::Sampled), cost: Some("a little"), ..collector },
            facility("good", Outcome::works("read")),
            facility("half", Outcome::degraded("read in part")),
            facility("bad", Outcome::fails("refused").remedy("sudo sysctl x=1")),
            facility("none", Outcome::absent("not there")),
        ]
    }

    #[test]
    fn the_verdict_is_of_the_chosen_alone() {
        let verdict = |chosen: &[&'static str]| DoctorReport::new(probes(), chosen.to_vec(), Vec::new()).verdict();
        assert_eq!(verdict(&["good"]), DoctorVerdict::Works);
        assert_eq!(verdict(&["good", "half"]), DoctorVerdict::Degraded);
        assert_eq!(verdict(&["half"]), DoctorVerdict::Degraded);
        assert_eq!(verdict(&["good", "bad"]), DoctorVerdict::Degraded);
        assert_eq!(verdict(&["bad", "none"]), DoctorVerdict::Fails);
        assert_eq!(verdict(&["half", "none"]), DoctorVerdict::Degraded);
    }

    #[test]
    fn collectors_come_first_with_basis_and_cost_and_remedies_are_hints() {
        let ollama = DoctorProgram {
            engine: "ollama",
            names: &["ollama"],
            program: Some(PathBuf::from("/usr/bin/ollama")),
            version: Some("0.9.1".to_owned()),
            install: None,
        };
        let vllm = DoctorProgram {
            engine: "vllm",
            names: &["vllm"],
            program: None,
            version: None,
            install: Some("pip install vllm"),
        };
        let report = DoctorReport::new(probes(), vec!["good", "bad"], vec![ollama, vllm]);
        assert_eq!(
            report.text(),
            "collectors\n  seen  works     80 accesses\n                  basis sampled; cost: a little\n\n\
             what else the kernel offers\n  good  works     read\n  half  degraded  read in part\n  bad   no        refused\n  \
             none  no        not there\n\nsensors\n\nexternal engines\n  \
             ollama  found     /usr/bin/ollama, version 0.9.1\n  vllm  no        no vllm in PATH\n\nchosen: good, bad; a part of it works\n"
        );
        assert_eq!(report.remedies(), ["for bad: sudo sysctl x=1", "for --engine vllm: pip install vllm"]);
    }
}
