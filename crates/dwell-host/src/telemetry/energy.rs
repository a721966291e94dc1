//! Energy, from the RAPL counters in powercap.

use dwell_events::host::Energy;

use crate::kept_file::KeptFile;
use crate::root::Root;

const POWERCAP: &str = "sys/class/powercap";

/// Makes the counters readable for all users until the next start of the machine.
pub(crate) const ENABLE_COMMAND: &str = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";

pub(crate) struct EnergyWatch {
    package: Result<Vec<Domain>, String>,
    dram: Result<Vec<Domain>, String>,
}

struct Domain {
    file: KeptFile,
    /// Where the counter begins anew.
    range_uj: u64,
    last_uj: u64,
    used_uj: u64,
}

impl EnergyWatch {
    pub(crate) fn begin(root: &Root) -> Self {
        let names = root.names(POWERCAP);
        let begin = |what: &str, is_wanted: fn(&str) -> bool| {
            // intel-rapl-mmio tells of the same packages another time, so it is left out.
            let folders = names.iter().filter(|name| name.starts_with("intel-rapl:"));
            let folders = folders.map(|name| format!("{POWERCAP}/{name}"));
            let wanted =
                folders.filter(|folder| root.word(&format!("{folder}/name")).is_some_and(|name| is_wanted(&name)));
            let domains: Result<Vec<Domain>, String> = wanted.map(|folder| Domain::begin(root, &folder)).collect();
            domains.and_then(|domains| match domains.is_empty() {
                true => Err(format!("/{POWERCAP} has no RAPL counter of {what}")),
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
            let sum = |domains: Vec<Domain>| domains.iter().map(|domain| domain.used_uj).sum::<u64>() as f64 / 1e6;
            domains.map(sum).into()
        };
        Energy { package_joules: joules(self.package), dram_joules: joules(self.dram) }
    }
}

fn look_at(state: &mut Result<Vec<Domain>, String>) {
    let Ok(domains) = state else { return };
    if let Err(reason) = domains.iter_mut().try_for_each(|domain| domain.look()) {
        *state = Err(reason);
    }
}

impl Domain {
    fn begin(root: &Root, folder: &str) -> Result<Self, String> {
        let range_uj = root.number(&format!("{folder}/max_energy_range_uj"));
        let range_uj = range_uj.ok_or_else(|| format!("/{folder}/max_energy_range_uj does not tell"))?;
        let path = root.path(&format!("{folder}/energy_uj"));
        let file = KeptFile::open(path).map_err(|reason| format!("{reason}; `{ENABLE_COMMAND}` allows it"))?;
        let last_uj = energy_uj(&file)?;
        Ok(Self { file, range_uj, last_uj, used_uj: 0 })
    }

    fn look(&mut self) -> Result<(), String> {
        let now_uj = energy_uj(&self.file)?;
        self.used_uj += used_uj(self.last_uj, now_uj, self.range_uj);
        self.last_uj = now_uj;
        Ok(())
    }
}

fn energy_uj(file: &KeptFile) -> Result<u64, String> {
    let value = file.number()?;
    u64::try_from(value).map_err(|_| format!("{} holds {value}, and no energy is below 0", file.path().display()))
}

/// From one reading to the next; a smaller one has begun anew, once.
fn used_uj(last_uj: u64, now_uj: u64, range_uj: u64) -> u64 {
    match now_uj.checked_sub(last_uj) {
        Some(used_uj) => used_uj,
        None => range_uj.saturating_sub(last_uj).saturating_add(now_uj),
    }
}

#[cfg(test)]
mod tests {
    use super::used_uj;

    #[test]
    fn a_counter_that_began_anew_has_gone_through_its_range() {
        assert_eq!(used_uj(100, 350, 1_000), 250);
        assert_eq!(used_uj(900, 50, 1_000), 150);
        assert_eq!(used_uj(1_000, 0, 1_000), 0);
    }
}
