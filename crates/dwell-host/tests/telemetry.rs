//! Sensors over time, from made trees whose files change between the first sample and the last.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dwell_events::host::{Baseline, Sensor, SensorSummary};
use dwell_host::{HostError, SensorThread, measure_baseline, measure_baseline_at};
use support::{Tree, amd, arm, intel};

/// The first sample sees the tree as it is, the second and last one as `change` leaves it.
fn watched(tree: &Tree, change: impl FnOnce(&Tree)) -> SensorSummary {
    let thread = SensorThread::start(&tree.root(), Duration::from_secs(3600)).unwrap();
    change(tree);
    thread.stop()
}

fn throttle(tree: &Tree, cpu: u32, kind: &str, count: u32) {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{kind}_throttle_count");
    tree.write(&path, &format!("{count}\n"));
}

#[test]
fn the_hottest_package_counts_and_no_other_sensor() {
    let summary = watched(&intel(), |tree| {
        tree.write("sys/class/hwmon/hwmon1/temp1_input", "60000\n");
        tree.write("sys/class/hwmon/hwmon1/temp3_input", "72500\n");
    });
    let temperature = summary.temperature.available().unwrap();
    assert_eq!(temperature.source, "coretemp Package id 0, coretemp Package id 1");
    let values = (temperature.start_c, temperature.mean_c, temperature.peak_c, temperature.end_c);
    assert_eq!(values, (50.0, 61.25, 72.5, 72.5));
    assert_eq!(summary.samples, 2);
}

#[test]
fn without_package_sensors_the_zone_counts_and_then_the_hottest_core() {
    let tree = intel();
    for input in [1, 3] {
        std::fs::remove_file(tree.path().join(format!("sys/class/hwmon/hwmon1/temp{input}_input"))).unwrap();
    }
    let source =
        |tree: &Tree| watched(tree, |_| {}).temperature.available().map(|found| (found.source.clone(), found.peak_c));
    assert_eq!(source(&tree), Some(("thermal zone x86_pkg_temp".to_owned(), 77.0)));
    std::fs::remove_dir_all(tree.path().join("sys/class/thermal")).unwrap();
    assert_eq!(source(&tree), Some(("coretemp Core 0".to_owned(), 88.0)));
    assert_eq!(source(&amd()), Some(("k10temp Tctl".to_owned(), 61.25)));
    assert_eq!(source(&arm()), Some(("thermal zone cpu-thermal".to_owned(), 47.2)));
}

#[test]
fn the_frequency_of_all_processors_is_told() {
    let summary = watched(&intel(), |tree| {
        for cpu in 0..8 {
            let khz = if cpu == 3 { "400000\n" } else { "3200000\n" };
            tree.write(&format!("sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_cur_freq"), khz);
        }
    });
    let frequency = summary.frequency.available().unwrap();
    assert_eq!(frequency.source, "scaling_cur_freq");
    assert_eq!((frequency.min_mhz, frequency.max_mhz), (400.0, 3200.0));
    assert_eq!((frequency.start_mhz, frequency.end_mhz), (1000.0, 2850.0));
    assert_eq!(frequency.mean_mhz, 1925.0);
}

#[test]
fn many_policies_are_stood_for_by_some() {
    let tree = Tree::new();
    for policy in 0..40 {
        let path = format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_cur_freq");
        tree.write(&path, "2000000\n");
    }
    let summary = watched(&tree, |_| {});
    assert_eq!(summary.frequency.available().unwrap().source, "scaling_cur_freq of 14 of 40 policies");
}

#[test]
fn without_cpufreq_the_weaker_source_is_named_as_such() {
    let tree = Tree::new();
    tree.write("proc/cpuinfo", "cpu MHz\t\t: 2600.500\nflags : a\n\ncpu MHz\t\t: 2400.500\n");
    let frequency = watched(&tree, |_| {}).frequency;
    let frequency = frequency.available().unwrap();
    assert!(frequency.source.contains("nominal"), "{}", frequency.source);
    assert_eq!((frequency.mean_mhz, frequency.max_mhz), (2500.5, 2600.5));
}

#[test]
fn one_event_counts_once_however_many_processors_saw_it() {
    let summary = watched(&intel(), |tree| {
        // Package 0 throttled twice; each of its processors was told, one of them late.
        (0..3).for_each(|cpu| throttle(tree, cpu, "package", 9));
        throttle(tree, 3, "package", 8);
        // The first core of package 1 throttled three times.
        (4..6).for_each(|cpu| throttle(tree, cpu, "core", 10));
        // A counter that was reset by switching its processor off says nothing.
        throttle(tree, 6, "core", 0);
    });
    assert_eq!(summary.throttle_events, Sensor::Available(5));
    assert_eq!(watched(&intel(), |_| {}).throttle_events, Sensor::Available(0));
    assert!(watched(&amd(), |_| {}).throttle_events.reason().unwrap().contains("Intel"));
}

#[test]
fn energy_is_summed_over_packages_and_through_the_end_of_a_counter() {
    let summary = watched(&intel(), |tree| {
        tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "3500000\n");
        tree.write("sys/class/powercap/intel-rapl:0:0/energy_uj", "250100\n");
        tree.write("sys/class/powercap/intel-rapl:0:1/energy_uj", "3000000\n");
        tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "400000\n");
        tree.write("sys/class/powercap/intel-rapl:2/energy_uj", "4000000\n");
        tree.write("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "3500000\n");
    });
    // 2.5 J of package 0, 0.1 J to the end of its range and 0.4 J after it of package 1.
    assert_eq!(summary.energy.package_joules, Sensor::Available(3.0));
    assert_eq!(summary.energy.dram_joules, Sensor::Available(0.25));
    let energy = watched(&amd(), |_| {}).energy;
    assert_eq!(energy.package_joules, Sensor::Available(0.0));
    assert!(energy.dram_joules.reason().unwrap().contains("memory"));
}

#[test]
fn processors_and_stalls_are_told_as_shares() {
    let summary = watched(&intel(), |tree| {
        tree.write("proc/stat", "cpu  1060 0 0 1030 0 0 0 10 0 0\n");
        tree.write("proc/pressure/io", "some avg10=9.00 avg60=0 avg300=0 total=100\n");
    });
    assert_eq!(summary.cpu_pct, Sensor::Available(60.0));
    assert_eq!(summary.steal_pct, Sensor::Available(10.0));
    let io = summary.pressure.io.available().unwrap();
    assert_eq!((io.some_pct, io.some_avg10_pct, io.full_pct), (0.0, 9.0, None));
}

#[test]
fn a_machine_without_sensors_says_so_of_each() {
    let summary = watched(&Tree::new(), |_| {});
    let json = serde_json::to_value(&summary).unwrap();
    for name in ["temperature", "frequency", "throttle_events", "cpu_pct", "steal_pct"] {
        assert!(json[name]["not_available"].is_string(), "{name}: {json}");
    }
    for (group, name) in
        [("energy", "package_joules"), ("energy", "dram_joules"), ("pressure", "cpu"), ("pressure", "io")]
    {
        assert!(json[group][name]["not_available"].is_string(), "{name}: {json}");
    }
    assert_eq!(serde_json::from_value::<SensorSummary>(json).unwrap(), summary);
}

#[test]
fn a_sensor_that_breaks_meanwhile_gives_a_reason_and_no_value() {
    let summary = watched(&intel(), |tree| {
        tree.write("sys/class/hwmon/hwmon1/temp1_input", "\n");
    });
    assert!(summary.temperature.reason().unwrap().contains("no number"));
}

#[test]
fn an_interval_of_zero_is_refused() {
    let started = SensorThread::start(&Tree::new().root(), Duration::ZERO);
    assert!(matches!(started, Err(HostError::ZeroInterval)));
}

#[test]
fn a_baseline_in_which_nothing_passed_has_no_use_of_processors() {
    let millisecond = Duration::from_millis(1);
    let baseline = measure_baseline_at(&intel().root(), millisecond, millisecond, &AtomicBool::new(false));
    assert!(baseline.cpu_mean_pct.reason().unwrap().contains("no tick"));
    assert!(baseline.cpu_max_pct.reason().is_some());
    assert_eq!(baseline.memory_total_bytes, Sensor::Available(16_388_608 << 10));
    assert_eq!(baseline.memory_available_bytes, Sensor::Available(4_000_000 << 10));
    assert_eq!(baseline.load_averages, Sensor::Available([0.52, 1.25, 2.0]));
    assert_eq!(baseline.tasks_running, Sensor::Available(3));
    let cpu = baseline.pressure.cpu.available().unwrap();
    assert_eq!((cpu.some_pct, cpu.some_avg10_pct, cpu.full_avg10_pct), (0.0, 1.5, Some(0.5)));
}

#[test]
fn a_stopped_baseline_ends_at_once_and_says_what_it_lacks() {
    let day = Duration::from_secs(86_400);
    let baseline = measure_baseline(day, day, &AtomicBool::new(true));
    assert_eq!(baseline.intervals, 0);
    assert!(baseline.cpu_mean_pct.reason().is_some());
    let json = serde_json::to_string(&baseline).unwrap();
    assert_eq!(serde_json::from_str::<Baseline>(&json).unwrap(), baseline);
}
