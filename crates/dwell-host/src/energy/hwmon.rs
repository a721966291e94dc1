//! Sensors of energy and power that drivers offer through hwmon.

use dwell_events::{EnergyBasis, EnergyPart};

use super::{EnergyMeters, Quantity};
use crate::kept_file::KeptFile;
use crate::root::Root;

const HWMON: &str = "sys/class/hwmon";

pub(super) fn open(root: &Root, meters: &mut EnergyMeters) {
    for device in root.numbered(HWMON, "hwmon") {
        let folder = format!("{HWMON}/{device}");
        let driver = root.word(&format!("{folder}/name")).unwrap_or_else(|| device.clone());
        for input in root.names(&folder) {
            let Some(sensor) = sensor(&input) else { continue };
            let label = root.word(&format!("{folder}/{}_label", sensor.channel));
            let source = format!("hwmon:{driver}:{}", label.as_deref().unwrap_or(sensor.channel));
            // A driver may have two devices, and a device an average beside the value of the moment.
            if meters.names().any(|name| name.source == source) {
                continue;
            }
            match KeptFile::open(root.path(&format!("{folder}/{input}"))) {
                Ok(file) => add(meters, source, sensor.basis, file),
                Err(reason) => meters.refuse(reason, None),
            }
        }
    }
}

struct Sensor<'a> {
    /// `energy1`, `power2`.
    channel: &'a str,
    basis: EnergyBasis,
}

fn sensor(input: &str) -> Option<Sensor<'_>> {
    let channel = input.strip_suffix("_input").or_else(|| input.strip_suffix("_average"))?;
    let basis = match channel {
        channel if channel.starts_with("energy") => EnergyBasis::Counter,
        channel if channel.starts_with("power") => EnergyBasis::Power,
        _ => return None,
    };
    Some(Sensor { channel, basis })
}

/// Both kinds are in millionths.
fn add(meters: &mut EnergyMeters, source: String, basis: EnergyBasis, file: KeptFile) {
    let value = move || file.number().map(|micro| micro as f64 / 1e6);
    match basis {
        EnergyBasis::Counter => {
            let read = move || value().map(Quantity::Joules);
            meters.add(source, EnergyPart::Sensor, basis, Box::new(read));
        }
        EnergyBasis::Power => {
            let read = move || value().map(|watts| Quantity::Watts(Some(watts)));
            meters.add(source, EnergyPart::Sensor, basis, Box::new(read));
        }
    }
}
