//! Energy, from the RAPL counters in powercap.

use dwell_events::host::Energy;

use crate::energy::{RaplCounter, zones};
use crate::root::Root;

pub(crate) struct EnergyWatch {
    package: Result<Vec<Domain>, String>,
    dram: Result<Vec<Domain>, String>,
}

struct Domain {
    counter: RaplCounter,
    joules: f64,
}

impl EnergyWatch {
    pub(crate) fn begin(root: &Root) -> Self {
        let zones = zones(root);
        let begin = |what: &str, is_wanted: fn(&str) -> bool| {
            let wanted = zones.iter().filter(|zone| is_wanted(&zone.name));
            let counters = wanted.map(|zone| RaplCounter::open(root, &zone.folder));
            let domains: Result<Vec<Domain>, String> =
                counters.map(|counter| Ok(Domain { counter: counter?, joules: 0.0 })).collect();
            domains.and_then(|domains| match domains.is_empty() {
                true => Err(format!("/sys/class/powercap has no RAPL counter of {what}")),
                false => Ok(domains),
            })
        };
        Self {
            package: begin("processor packages", |name| name.starts_with("package")),
            dram: begin("memory", |name| name == "dram"),
        }
    }

    pub(crate) fn look(&mut self) {
        look_at(&mut self.package);
        look_at(&mut self.dram);
    }

    pub(crate) fn end(self) -> Energy {
        let joules = |domains: Result<Vec<Domain>, String>| {
            domains.map(|domains| domains.iter().map(|domain| domain.joules).sum::<f64>()).into()
        };
        Energy { package_joules: joules(self.package), dram_joules: joules(self.dram) }
    }
}

fn look_at(state: &mut Result<Vec<Domain>, String>) {
    let Ok(domains) = state else { return };
    let look = |domain: &mut Domain| domain.counter.joules().map(|joules| domain.joules = joules);
    if let Err(reason) = domains.iter_mut().try_for_each(look) {
        *state = Err(reason);
    }
}
