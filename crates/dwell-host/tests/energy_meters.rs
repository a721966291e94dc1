//! Meters of energy, from made trees and a made driver whose values change between two readings.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use dwell_events::{EnergyBasis, EnergyPart};
use dwell_host::{EnergyMeters, EnergyReading};
use support::{Tree, intel};

/// What one meter said.
fn reading_of(meters: &EnergyMeters, readings: &[EnergyReading], source: &str) -> EnergyReading {
    let place = meters.names().position(|name| name.source == source).unwrap_or_else(|| panic!("there is no {source}"));
    *readings.iter().find(|reading| reading.meter == place).unwrap()
}

fn names(meters: &EnergyMeters) -> Vec<(&str, EnergyPart, EnergyBasis)> {
    meters.names().map(|name| (name.source.as_str(), name.part, name.basis)).collect()
}

#[test]
fn every_rapl_zone_is_a_meter_that_goes_on_through_the_end_of_its_range() {
    let tree = intel();
    let mut meters = EnergyMeters::open(&tree.root());
    let counter = EnergyBasis::Counter;
    let expected = [
        ("rapl:package-0", EnergyPart::Processor, counter),
        ("rapl:package-0:dram", EnergyPart::Memory, counter),
        ("rapl:package-0:core", EnergyPart::InsideProcessor, counter),
        ("rapl:package-1", EnergyPart::Processor, counter),
        ("rapl:psys", EnergyPart::Platform, counter),
    ];
    assert_eq!(names(&meters), expected);
    meters.read();
    tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "3500000\n");
    tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "400000\n");
    meters.read();
    tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "300000\n");
    let (readings, failures) = meters.read();
    assert!(failures.is_empty(), "{failures:?}");
    let joules = |source| reading_of(&meters, &readings, source).joules;
    assert_eq!(joules("rapl:package-0"), 2.5);
    // 0.1 J to the end of the range of 5 J, 0.4 J after it, then the whole range less 0.1 J.
    assert_eq!(joules("rapl:package-1"), 0.5 + 4.9);
    assert_eq!(joules("rapl:package-0:core"), 0.0);
}

#[test]
fn a_counter_that_may_not_be_read_is_refused_with_the_command_that_allows_it() {
    let tree = intel();
    // Root may read everything, so a file that is gone stands for one that may not be read.
    std::fs::remove_file(tree.path().join("sys/class/powercap/intel-rapl:0/energy_uj")).unwrap();
    let meters = EnergyMeters::open(&tree.root());
    assert_eq!(meters.names().count(), 4);
    let refusal = &meters.refusals()[0];
    assert!(refusal.reason.contains("intel-rapl:0/energy_uj"), "{refusal:?}");
    assert_eq!(refusal.remedy, Some("sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"));
}

#[test]
fn sensors_of_hwmon_are_meters_by_their_labels_and_temperatures_are_not() {
    let tree = Tree::new();
    tree.write("sys/class/hwmon/hwmon0/name", "amd_energy\n");
    tree.write("sys/class/hwmon/hwmon0/energy1_label", "Esocket0\n");
    tree.write("sys/class/hwmon/hwmon0/energy1_input", "1000000\n");
    tree.write("sys/class/hwmon/hwmon0/temp1_input", "50000\n");
    tree.write("sys/class/hwmon/hwmon1/name", "amdgpu\n");
    tree.write("sys/class/hwmon/hwmon1/power1_average", "30000000\n");
    let mut meters = EnergyMeters::open(&tree.root());
    let expected = [
        ("hwmon:amd_energy:Esocket0", EnergyPart::Sensor, EnergyBasis::Counter),
        ("hwmon:amdgpu:power1", EnergyPart::Sensor, EnergyBasis::Power),
    ];
    assert_eq!(names(&meters), expected);
    let (first, _) = meters.read();
    tree.write("sys/class/hwmon/hwmon0/energy1_input", "4500000\n");
    thread::sleep(Duration::from_millis(20));
    let (second, _) = meters.read();
    assert_eq!(reading_of(&meters, &second, "hwmon:amd_energy:Esocket0").joules, 3.5);
    let [before, after] = [&first, &second].map(|readings| reading_of(&meters, readings, "hwmon:amdgpu:power1"));
    let seconds = (after.timestamp_ns - before.timestamp_ns) as f64 / 1e9;
    assert_eq!((after.watts, after.joules), (Some(30.0), 30.0 * seconds));
}

#[test]
fn a_battery_counts_while_it_supplies_the_machine() {
    let tree = Tree::new();
    let battery = |file: &str, text: &str| {
        tree.write(&format!("sys/class/power_supply/BAT0/{file}"), text);
    };
    battery("type", "Battery\n");
    battery("status", "Discharging\n");
    battery("current_now", "2000000\n");
    battery("voltage_now", "12000000\n");
    tree.write("sys/class/power_supply/mouse/type", "Battery\n")
        .write("sys/class/power_supply/mouse/scope", "Device\n");
    tree.write("sys/class/power_supply/AC/type", "Mains\n");
    let mut meters = EnergyMeters::open(&tree.root());
    assert_eq!(names(&meters), [("battery:BAT0", EnergyPart::Battery, EnergyBasis::Power)]);
    assert_eq!(meters.read().0[0].watts, Some(24.0));
    battery("status", "Charging\n");
    let charging = meters.read().0[0];
    assert_eq!((charging.watts, charging.joules), (None, 0.0));
    std::fs::remove_file(tree.path().join("sys/class/power_supply/BAT0/status")).unwrap();
    let (readings, failures) = meters.read();
    assert!(readings.is_empty() && failures[0].starts_with("battery:BAT0: "), "{failures:?}");
}

#[test]
fn a_battery_without_power_is_read_by_its_energy() {
    let tree = Tree::new();
    tree.write("sys/class/power_supply/BAT1/type", "Battery\n");
    let energy = |microwatt_hours: &str| {
        tree.write("sys/class/power_supply/BAT1/energy_now", microwatt_hours);
    };
    energy("50000000\n");
    let mut meters = EnergyMeters::open(&tree.root());
    assert_eq!(names(&meters), [("battery:BAT1", EnergyPart::Battery, EnergyBasis::Counter)]);
    meters.read();
    energy("49000000\n");
    assert_eq!(meters.read().0[0].joules, 3_600.0, "1 Wh");
    energy("49500000\n");
    assert_eq!(meters.read().0[0].joules, 3_600.0, "what is charged is not given back");
}

#[test]
fn a_gpu_is_read_by_its_counter_and_by_its_power_where_it_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let library = compiled_library(dir.path());
    let mut meters = EnergyMeters::open_with_nvml(&Tree::new().root(), &library);
    assert_eq!(meters.refusals(), []);
    let expected = [("nvml:0", EnergyPart::Gpu, EnergyBasis::Counter), ("nvml:1", EnergyPart::Gpu, EnergyBasis::Power)];
    assert_eq!(names(&meters), expected);
    meters.read();
    let (readings, failures) = meters.read();
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(reading_of(&meters, &readings, "nvml:0").joules, 1.5);
    assert_eq!(reading_of(&meters, &readings, "nvml:1").watts, Some(250.5));
}

#[test]
fn a_driver_that_does_not_answer_is_refused_in_its_words() {
    let meters = EnergyMeters::open_with_nvml(&Tree::new().root(), Path::new("/nonexistent/libnvidia-ml.so.1"));
    assert_eq!(meters.names().count(), 0);
    assert!(meters.refusals()[0].reason.contains("/nonexistent/libnvidia-ml.so.1"), "{:?}", meters.refusals());
}

/// Any C compiler does: building dwell needs one.
fn compiled_library(dir: &Path) -> PathBuf {
    let library = dir.join("libfake-nvml.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_nvml.c");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().unwrap();
    assert!(status.success());
    library
}
