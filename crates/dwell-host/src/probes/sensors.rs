//! Sensors: each is read once.

use dwell_events::host::{Outcome, Sensor};

use super::ProbeContext;
use crate::energy::ENABLE_COMMAND;
use crate::facts::gpus;
use crate::pressure::PressureWatch;
use crate::telemetry::{EnergyWatch, FrequencyWatch, TemperatureWatch, ThrottleWatch};

/// Pressure stall information.
pub(super) fn psi(context: &ProbeContext) -> Outcome {
    let mut buffer = Vec::new();
    let pressure = PressureWatch::begin(&context.root, &mut buffer).end(&mut buffer);
    let reason = [&pressure.cpu, &pressure.memory, &pressure.io].into_iter().find_map(Sensor::reason);
    match reason {
        None => Outcome::works("stalls of cpu, memory and io were read"),
        Some(reason) => Outcome::absent(reason)
            .remedy("sudo grubby --update-kernel ALL --args psi=1  # or add psi=1 to the kernel's command line"),
    }
}

/// Graphics processors.
pub(super) fn gpu(context: &ProbeContext) -> Outcome {
    match gpus(&context.root).available().map(Vec::as_slice) {
        None | Some([]) => Outcome::absent("no driver lists a graphics processor"),
        Some(gpus) => Outcome::works(gpus.iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

/// Energy counters.
pub(super) fn rapl(context: &ProbeContext) -> Outcome {
    let energy = EnergyWatch::begin(&context.root).end();
    match (energy.package_joules, energy.dram_joules) {
        (Sensor::Available(_), Sensor::Available(_)) => Outcome::works("energy of packages and memory was read"),
        (Sensor::Available(_), Sensor::NotAvailable { .. }) => {
            Outcome::works("energy of packages was read; memory is not counted apart")
        }
        (Sensor::NotAvailable { reason }, _) if reason.contains(ENABLE_COMMAND) => {
            Outcome::fails(reason).remedy(ENABLE_COMMAND)
        }
        (Sensor::NotAvailable { reason }, _) => Outcome::absent(reason),
    }
}

/// Temperature of the processor.
pub(super) fn thermal(context: &ProbeContext) -> Outcome {
    let mut watch = TemperatureWatch::open(&context.root);
    watch.look();
    read_or_absent(watch.end(), |temperature| format!("{}: {} °C", temperature.source, temperature.end_c))
}

/// Counters of throttling.
pub(super) fn throttle_counters(context: &ProbeContext) -> Outcome {
    let events = ThrottleWatch::begin(&context.root).end();
    read_or_absent(events, |_| "the counters of all processors were read".to_owned())
}

/// Frequency of the processors.
pub(super) fn cpu_frequency(context: &ProbeContext) -> Outcome {
    let mut watch = FrequencyWatch::open(&context.root);
    let is_weak = watch.is_weak();
    watch.look(&mut Vec::new());
    match watch.end() {
        Sensor::Available(frequency) => {
            let found = format!("{}: {:.0} MHz", frequency.source, frequency.end_mhz);
            if is_weak { Outcome::degraded(found) } else { Outcome::works(found) }
        }
        Sensor::NotAvailable { reason } => Outcome::absent(reason),
    }
}

fn read_or_absent<T>(sensor: Sensor<T>, found: impl FnOnce(T) -> String) -> Outcome {
    match sensor {
        Sensor::Available(value) => Outcome::works(found(value)),
        Sensor::NotAvailable { reason } => Outcome::absent(reason),
    }
}
