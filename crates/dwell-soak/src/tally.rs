//! What came of all trials, as a table and as numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::finding::{Fault, Finding};
use crate::trial::{Disturbance, TrialResult};

/// Counts of one scenario.
#[derive(Default)]
struct Counts {
    trials: u64,
    kills: BTreeMap<String, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    disturbances: BTreeMap<Disturbance, u64>,
    faults: BTreeMap<Fault, u64>,
    longest_interrupt: Duration,
    peak_bytes: u64,
}

/// Counts of all scenarios.
#[derive(Default)]
pub(crate) struct Tally {
    scenarios: BTreeMap<&'static str, Counts>,
    /// Faults with the trial that showed them.
    found: Vec<(u64, &'static str, Finding)>,
}

impl Tally {
    /// Adds a trial.
    pub(crate) fn add(&mut self, number: u64, scenario: &'static str, result: TrialResult) {
        let counts = self.scenarios.entry(scenario).or_default();
        counts.trials += 1;
        *counts.outcomes.entry(result.findings.outcome).or_default() += 1;
        *counts.disturbances.entry(result.disturbance).or_default() += 1;
        counts.longest_interrupt = counts.longest_interrupt.max(result.longest_interrupt);
        counts.peak_bytes = counts.peak_bytes.max(result.peak_bytes);
        for (role, kills) in result.kills {
            *counts.kills.entry(role).or_default() += kills;
        }
        for finding in result.findings.list {
            *counts.faults.entry(finding.fault).or_default() += 1;
            self.found.push((number, scenario, finding));
        }
    }

    /// Signals sent in all.
    pub(crate) fn kills(&self) -> u64 {
        self.scenarios.values().map(Counts::kills).sum()
    }

    /// Faults in all.
    pub(crate) fn faults(&self) -> u64 {
        self.scenarios.values().flat_map(|counts| counts.faults.values()).sum()
    }

    /// One line for each scenario, then which processes were killed, then each fault.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("| scenario | trials | kills |");
        Fault::ALL.iter().for_each(|fault| _ = write!(text, " {} |", fault.name()));
        text.push_str(" outcomes | longest Ctrl-C | most memory |\n|");
        text.push_str(&" --- |".repeat(Fault::ALL.len() + 6));
        text.push('\n');
        for (name, counts) in &self.scenarios {
            counts.line(name, &mut text);
        }
        let _ = writeln!(text, "\nkilled: {}", listed(&self.killed()));
        let _ = writeln!(text, "trials with: {}", listed(&self.disturbances()));
        for (number, scenario, finding) in &self.found {
            let _ =
                writeln!(text, "\nFAULT in trial {number} ({scenario}): {}: {}", finding.fault.name(), finding.what);
        }
        text
    }

    fn killed(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (role, kills) in self.scenarios.values().flat_map(|counts| &counts.kills) {
            *all.entry(role.clone()).or_default() += kills;
        }
        all
    }

    fn disturbances(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (disturbance, trials) in self.scenarios.values().flat_map(|counts| &counts.disturbances) {
            *all.entry(disturbance.name().to_owned()).or_default() += trials;
        }
        all
    }

    /// Lines of CSV: scenario, quantity, value.
    pub(crate) fn csv(&self) -> String {
        let mut csv = String::from("scenario,quantity,value\n");
        for (name, counts) in &self.scenarios {
            let mut line = |quantity: &str, value: f64| _ = writeln!(csv, "{name},{quantity},{value}");
            line("trials", counts.trials as f64);
            counts.kills.iter().for_each(|(role, kills)| line(&format!("killed {role}"), *kills as f64));
            counts.outcomes.iter().for_each(|(outcome, trials)| line(outcome, *trials as f64));
            for fault in Fault::ALL {
                line(fault.name(), counts.faults.get(&fault).copied().unwrap_or(0) as f64);
            }
            line("longest_interrupt_s", counts.longest_interrupt.as_secs_f64());
            line("peak_mib", (counts.peak_bytes >> 20) as f64);
        }
        csv
    }
}

impl Counts {
    fn kills(&self) -> u64 {
        self.kills.values().sum()
    }

    fn line(&self, name: &str, text: &mut String) {
        let _ = write!(text, "| {name} | {} | {} |", self.trials, self.kills());
        Fault::ALL.iter().for_each(|fault| _ = write!(text, " {} |", self.faults.get(fault).copied().unwrap_or(0)));
        let outcomes = self.outcomes.iter().map(|(outcome, trials)| ((*outcome).to_owned(), *trials)).collect();
        let (secs, mib) = (self.longest_interrupt.as_secs_f64(), self.peak_bytes >> 20);
        let _ = writeln!(text, " {} | {secs:.1} s | {mib} MiB |", listed(&outcomes));
    }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}
