//! RAPL counters in powercap.

use dwell_events::{EnergyBasis, EnergyPart};

use super::{EnergyMeters, Quantity};
use crate::kept_file::KeptFile;
use crate::root::Root;

const POWERCAP: &str = "sys/class/powercap";

/// Makes the counters readable for all users until the next start of the machine.
pub(crate) const ENABLE_COMMAND: &str = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";

/// A RAPL domain that the kernel lists.
pub(crate) struct Zone {
    pub(crate) folder: String,
    /// Its own name, such as `dram`.
    pub(crate) name: String,
    /// With the name of the package that it is in.
    full_name: String,
}

/// All domains; `intel-rapl-mmio` tells of the same packages another time, so it is left out.
pub(crate) fn zones(root: &Root) -> Vec<Zone> {
    let name_of = |folder: &str| root.word(&format!("{POWERCAP}/{folder}/name"));
    let zone = |folder: String| {
        let name = name_of(&folder)?;
        let parent = folder.rsplit_once(':').map(|(parent, _)| parent).filter(|parent| parent.contains(':'));
        let full_name = match parent.and_then(name_of) {
            Some(parent) => format!("{parent}:{name}"),
            None => name.clone(),
        };
        Some(Zone { folder: format!("{POWERCAP}/{folder}"), name, full_name })
    };
    root.names(POWERCAP).into_iter().filter(|name| name.starts_with("intel-rapl:")).filter_map(zone).collect()
}

pub(super) fn open(root: &Root, meters: &mut EnergyMeters) {
    for zone in zones(root) {
        match RaplCounter::open(root, &zone.folder) {
            Ok(mut counter) => {
                let read = move || counter.joules().map(Quantity::Joules);
                let source = format!("rapl:{}", zone.full_name);
                meters.add(source, part_of(&zone.name), EnergyBasis::Counter, Box::new(read));
            }
            Err(reason) => meters.refuse(reason, Some(ENABLE_COMMAND)),
        }
    }
}

fn part_of(name: &str) -> EnergyPart {
    match name {
        "dram" => EnergyPart::Memory,
        "psys" => EnergyPart::Platform,
        name if name.starts_with("package") => EnergyPart::Processor,
        _ => EnergyPart::InsideProcessor,
    }
}

/// A counter that begins anew at the end of its range.
pub(crate) struct RaplCounter {
    file: KeptFile,
    /// Where the counter begins anew.
    range_uj: u64,
    last_uj: u64,
    used_uj: u64,
}

impl RaplCounter {
    /// Begins to count.
    pub(crate) fn open(root: &Root, folder: &str) -> Result<Self, String> {
        let range_uj = root.number(&format!("{folder}/max_energy_range_uj"));
        let range_uj = range_uj.ok_or_else(|| format!("/{folder}/max_energy_range_uj does not tell"))?;
        let path = root.path(&format!("{folder}/energy_uj"));
        let file = KeptFile::open(path).map_err(|reason| format!("{reason}; `{ENABLE_COMMAND}` allows it"))?;
        let last_uj = energy_uj(&file)?;
        Ok(Self { file, range_uj, last_uj, used_uj: 0 })
    }

    /// Energy since it was opened. Between two calls the counter must begin anew at most once.
    pub(crate) fn joules(&mut self) -> Result<f64, String> {
        let now_uj = energy_uj(&self.file)?;
        self.used_uj += used_uj(self.last_uj, now_uj, self.range_uj);
        self.last_uj = now_uj;
        Ok(self.used_uj as f64 / 1e6)
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
