//! NVIDIA's GPUs, by the driver's own account (NVML). Its library is opened only where the driver runs.
//!
//! The counter of total energy exists from Volta on. The driver moves it every 20 to 100 ms, so the energy of a shorter time is
//! known that roughly.

use std::path::Path;
use std::sync::Arc;

use dwell_events::{EnergyBasis, EnergyPart};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::{EnergyMeters, Quantity};

const LIBRARY: &str = "libnvidia-ml.so.1";
/// There while the driver is.
const DRIVER_DEVICE: &str = "/dev/nvidiactl";

pub(super) fn open(meters: &mut EnergyMeters) {
    if Path::new(DRIVER_DEVICE).exists() {
        open_library(Path::new(LIBRARY), meters);
    }
}

pub(super) fn open_library(library: &Path, meters: &mut EnergyMeters) {
    let opened = Nvml::builder().lib_path(library.as_os_str()).init();
    let counted = opened.and_then(|nvml| Ok((nvml.device_count()?, nvml)));
    match counted {
        Ok((gpus, nvml)) => {
            let nvml = Arc::new(nvml);
            (0..gpus).for_each(|index| add(&nvml, index, meters));
        }
        Err(error) => meters.refuse(format!("NVIDIA's driver gives no energy: {error}"), None),
    }
}

fn add(nvml: &Arc<Nvml>, index: u32, meters: &mut EnergyMeters) {
    let source = format!("nvml:{index}");
    let first = (joules(nvml, index), watts(nvml, index));
    let nvml = nvml.clone();
    match first {
        (Ok(begin), _) => {
            let read = move || joules(&nvml, index).map(|now| Quantity::Joules(now - begin)).map_err(in_words);
            meters.add(source, EnergyPart::Gpu, EnergyBasis::Counter, Box::new(read));
        }
        (Err(_), Ok(_)) => {
            let read = move || watts(&nvml, index).map(|watts| Quantity::Watts(Some(watts))).map_err(in_words);
            meters.add(source, EnergyPart::Gpu, EnergyBasis::Power, Box::new(read));
        }
        (Err(energy), Err(power)) => {
            let reason = format!("GPU {index} tells neither its energy ({energy}) nor its power ({power})");
            meters.refuse(reason, None);
        }
    }
}

fn in_words(error: NvmlError) -> String {
    format!("NVIDIA's driver said: {error}")
}

/// Since the driver was loaded.
fn joules(nvml: &Nvml, index: u32) -> Result<f64, NvmlError> {
    let millijoules = device(nvml, index)?.total_energy_consumption()?;
    Ok(millijoules as f64 / 1e3)
}

fn watts(nvml: &Nvml, index: u32) -> Result<f64, NvmlError> {
    let milliwatts = device(nvml, index)?.power_usage()?;
    Ok(f64::from(milliwatts) / 1e3)
}

fn device(nvml: &Nvml, index: u32) -> Result<Device<'_>, NvmlError> {
    nvml.device_by_index(index)
}
