//! Meters of energy: everything on the machine that says how much energy it takes, or how much power.
//!
//! - A counter (RAPL, `energy*_input`, NVML's total energy) misses nothing between two readings. RAPL counters begin anew at
//!   `max_energy_range_uj`: a package of 200 W goes through 65 kJ in 5 minutes, so a reading more seldom than that is wrong.
//! - A power is what the sensor said at that moment, or on average over a time of its own. It is integrated by trapezoids,
//!   so peaks between two readings are not seen.
//! - All of them speak of the machine: whatever else runs counts too.

mod battery;
mod hwmon;
mod nvidia;
mod powercap;

use std::path::Path;

use dwell_clock::monotonic_ns;
use dwell_events::{EnergyBasis, EnergyMeterName, EnergyPart};

use crate::root::Root;
pub(crate) use powercap::{ENABLE_COMMAND, RaplCounter, zones};

/// What one reading of a meter gives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    /// Energy since the meter was opened.
    Joules(f64),
    /// Power now; none while the meter does not supply the machine, as a battery that is charged.
    Watts(Option<f64>),
}

type Read = Box<dyn FnMut() -> Result<Quantity, String> + Send>;

/// A meter with what it has added up.
struct Meter {
    name: EnergyMeterName,
    read: Read,
    joules: f64,
    before: Option<Before>,
}

/// The reading before.
#[derive(Clone, Copy)]
struct Before {
    timestamp_ns: u64,
    joules: f64,
    watts: Option<f64>,
}

/// What a meter said at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyReading {
    /// When it was read.
    pub timestamp_ns: u64,
    /// Place of the meter in [`EnergyMeters::names`].
    pub meter: usize,
    /// Energy since the first reading, in joules.
    pub joules: f64,
    /// Power since the reading before, or now for a meter of power; none if it is not known.
    pub watts: Option<f64>,
}

/// A meter that is there and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnergyRefusal {
    /// Why, with the path.
    pub reason: String,
    /// A command that allows it.
    pub remedy: Option<&'static str>,
}

/// All meters of the machine that can be read.
pub struct EnergyMeters {
    meters: Vec<Meter>,
    refusals: Vec<EnergyRefusal>,
}

impl EnergyMeters {
    /// Opens all that are there. Those of NVIDIA's driver are of the running machine, so a made tree has none.
    pub fn open(root: &Root) -> Self {
        let mut meters = Self::of_files(root);
        if *root == Root::default() {
            nvidia::open(&mut meters);
        }
        meters
    }

    /// The same with a library in the place of NVIDIA's.
    pub fn open_with_nvml(root: &Root, library: &Path) -> Self {
        let mut meters = Self::of_files(root);
        nvidia::open_library(library, &mut meters);
        meters
    }

    fn of_files(root: &Root) -> Self {
        let mut meters = Self { meters: Vec::new(), refusals: Vec::new() };
        powercap::open(root, &mut meters);
        hwmon::open(root, &mut meters);
        battery::open(root, &mut meters);
        meters
    }

    /// The meters.
    pub fn names(&self) -> impl Iterator<Item = &EnergyMeterName> {
        self.meters.iter().map(|meter| &meter.name)
    }

    /// Meters that are there and cannot be read.
    pub fn refusals(&self) -> &[EnergyRefusal] {
        &self.refusals
    }

    /// Reads all meters. One that cannot be read now is left out, and why is in the second list.
    pub fn read(&mut self) -> (Vec<EnergyReading>, Vec<String>) {
        let (mut readings, mut failures) = (Vec::new(), Vec::new());
        for (index, meter) in self.meters.iter_mut().enumerate() {
            match (meter.read)() {
                Ok(quantity) => {
                    // The time after the reading: a driver takes milliseconds where the GPU was asleep.
                    let timestamp_ns = monotonic_ns();
                    let (joules, watts) = meter.take(timestamp_ns, quantity);
                    readings.push(EnergyReading { timestamp_ns, meter: index, joules, watts });
                }
                Err(reason) => failures.push(format!("{}: {reason}", meter.name.source)),
            }
        }
        (readings, failures)
    }

    fn add(&mut self, source: String, part: EnergyPart, basis: EnergyBasis, read: Read) {
        let name = EnergyMeterName { source, part, basis };
        self.meters.push(Meter { name, read, joules: 0.0, before: None });
    }

    fn refuse(&mut self, reason: String, remedy: Option<&'static str>) {
        self.refusals.push(EnergyRefusal { reason, remedy });
    }
}

impl Meter {
    /// Adds a reading up. Returns the energy since the first one, and the power.
    fn take(&mut self, timestamp_ns: u64, quantity: Quantity) -> (f64, Option<f64>) {
        let before = self.before;
        let seconds = before.map(|before| timestamp_ns.saturating_sub(before.timestamp_ns) as f64 / 1e9);
        let (counted, watts) = match quantity {
            Quantity::Joules(joules) => (joules, None),
            Quantity::Watts(watts) => (0.0, watts),
        };
        self.joules += before.zip(seconds).map_or(0.0, |(before, seconds)| match quantity {
            Quantity::Joules(joules) => joules - before.joules,
            Quantity::Watts(watts) => before.watts.zip(watts).map_or(0.0, |(old, new)| (old + new) / 2.0 * seconds),
        });
        let mean = before.zip(seconds).filter(|(_, seconds)| *seconds > 0.0);
        let watts = match quantity {
            Quantity::Joules(joules) => mean.map(|(before, seconds)| (joules - before.joules) / seconds),
            Quantity::Watts(_) => watts,
        };
        self.before = Some(Before { timestamp_ns, joules: counted, watts });
        (self.joules, watts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(basis: EnergyBasis) -> Meter {
        let name = EnergyMeterName { source: "m".to_owned(), part: EnergyPart::Sensor, basis };
        Meter { name, read: Box::new(|| Err(String::new())), joules: 0.0, before: None }
    }

    #[test]
    fn a_counter_gives_the_power_between_two_readings() {
        let mut meter = meter(EnergyBasis::Counter);
        assert_eq!(meter.take(1_000_000_000, Quantity::Joules(5.0)), (0.0, None));
        assert_eq!(meter.take(3_000_000_000, Quantity::Joules(25.0)), (20.0, Some(10.0)));
        assert_eq!(meter.take(3_000_000_000, Quantity::Joules(25.0)), (20.0, None), "no time has passed");
    }

    #[test]
    fn power_is_integrated_by_trapezoids_and_not_over_a_time_in_which_it_is_not_known() {
        let mut meter = meter(EnergyBasis::Power);
        let watts = |watts| Quantity::Watts(Some(watts));
        assert_eq!(meter.take(0, watts(10.0)), (0.0, Some(10.0)));
        assert_eq!(meter.take(2_000_000_000, watts(20.0)), (30.0, Some(20.0)));
        assert_eq!(meter.take(4_000_000_000, Quantity::Watts(None)), (30.0, None));
        assert_eq!(meter.take(6_000_000_000, watts(20.0)), (30.0, Some(20.0)));
        assert_eq!(meter.take(6_500_000_000, watts(20.0)), (40.0, Some(20.0)));
    }
}
