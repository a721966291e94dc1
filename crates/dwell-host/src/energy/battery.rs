//! Batteries, while they supply the machine.
//!
//! Their energy is told in steps of about 36 J, so power times time is better for a run of seconds; a battery that tells no
//! power is read by its energy.

use dwell_events::{EnergyBasis, EnergyPart};

use super::{EnergyMeters, Quantity};
use crate::kept_file::KeptFile;
use crate::root::Root;

const POWER_SUPPLY: &str = "sys/class/power_supply";
const JOULES_PER_MICROWATT_HOUR: f64 = 3_600.0 / 1e6;

pub(super) fn open(root: &Root, meters: &mut EnergyMeters) {
    for name in root.names(POWER_SUPPLY) {
        let folder = format!("{POWER_SUPPLY}/{name}");
        // Those of mice and headsets have the scope of a device.
        let is_of_device = root.word(&format!("{folder}/scope")).as_deref() == Some("Device");
        if root.word(&format!("{folder}/type")).as_deref() != Some("Battery") || is_of_device {
            continue;
        }
        let battery = Battery { root: root.clone(), folder: folder.clone() };
        let source = format!("battery:{name}");
        if battery.watts().is_some() {
            let read = move || battery.quantity();
            meters.add(source, EnergyPart::Battery, EnergyBasis::Power, Box::new(read));
        } else if let Ok(file) = KeptFile::open(root.path(&format!("{folder}/energy_now"))) {
            let mut drained = Drained { file, last_uwh: None, joules: 0.0 };
            let read = move || drained.joules().map(Quantity::Joules);
            meters.add(source, EnergyPart::Battery, EnergyBasis::Counter, Box::new(read));
        } else {
            let missing = format!("/{folder} has neither power_now nor current_now with voltage_now nor energy_now");
            meters.refuse(missing, None);
        }
    }
}

struct Battery {
    root: Root,
    folder: String,
}

impl Battery {
    fn quantity(&self) -> Result<Quantity, String> {
        let status = self.root.word(&format!("{}/status", self.folder));
        let status = status.ok_or_else(|| format!("/{}/status does not tell", self.folder))?;
        let watts = self.watts().ok_or_else(|| format!("/{} tells no power", self.folder))?;
        Ok(Quantity::Watts((status == "Discharging").then_some(watts)))
    }

    fn watts(&self) -> Option<f64> {
        let micro = |file: &str| self.root.number::<f64>(&format!("{}/{file}", self.folder)).map(|value| value / 1e6);
        // Some drivers give the power of discharging a negative sign.
        let watts = micro("power_now").or_else(|| Some(micro("current_now")? * micro("voltage_now")?))?;
        Some(watts.abs())
    }
}

/// What left a battery, by its energy; what was charged is not given back.
struct Drained {
    file: KeptFile,
    last_uwh: Option<i64>,
    joules: f64,
}

impl Drained {
    fn joules(&mut self) -> Result<f64, String> {
        let now_uwh = self.file.number()?;
        let drained = self.last_uwh.replace(now_uwh).map_or(0, |last| (last - now_uwh).max(0));
        self.joules += drained as f64 * JOULES_PER_MICROWATT_HOUR;
        Ok(self.joules)
    }
}
