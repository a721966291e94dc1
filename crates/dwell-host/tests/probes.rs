//! Probes of sensors on made machines, and of the running kernel against each other.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeMap;

use dwell_events::host::{Probe, ProbeKind, ProbeStatus};
use dwell_host::{ProbeContext, Root, probe_all, probe_names};
use support::{Tree, amd, arm, intel};

fn sensors_of(tree: &Tree) -> BTreeMap<&'static str, Probe> {
    let context = ProbeContext { root: tree.root(), preload_library: None };
    let probes = probe_all(&context).into_iter().filter(|probe| probe.kind == ProbeKind::Sensor || probe.name == "psi");
    probes.map(|probe| (probe.name, probe)).collect()
}

fn statuses(probes: &BTreeMap<&'static str, Probe>) -> Vec<(&'static str, ProbeStatus)> {
    probes.values().map(|probe| (probe.name, probe.status)).collect()
}

#[test]
fn every_sensor_of_a_laptop_works() {
    let probes = sensors_of(&intel());
    let works = ["cpu_frequency", "gpu", "psi", "rapl", "thermal", "throttle_counters"];
    assert_eq!(statuses(&probes), works.map(|name| (name, ProbeStatus::Works)));
    assert!(probes["thermal"].found.contains("50 °C"), "{:?}", probes["thermal"]);
    assert!(probes["rapl"].found.contains("memory"), "{:?}", probes["rapl"]);
}

#[test]
fn what_amd_and_arm_do_not_have_is_absent() {
    use ProbeStatus::{Absent, Works};
    let expected = |statuses: [ProbeStatus; 6]| {
        let names = ["cpu_frequency", "gpu", "psi", "rapl", "thermal", "throttle_counters"];
        names.into_iter().zip(statuses).collect::<Vec<_>>()
    };
    assert_eq!(statuses(&sensors_of(&amd())), expected([Absent, Works, Absent, Works, Works, Absent]));
    assert_eq!(statuses(&sensors_of(&arm())), expected([Works, Absent, Absent, Absent, Works, Absent]));
}

#[test]
fn a_nominal_frequency_is_a_degraded_one() {
    let tree = Tree::new();
    tree.write("proc/cpuinfo", "cpu MHz\t\t: 2600.000\n");
    assert_eq!(sensors_of(&tree)["cpu_frequency"].status, ProbeStatus::Degraded);
}

#[test]
fn every_probe_is_named_once_and_says_what_it_found() {
    let probes = probe_all(&ProbeContext::default());
    let names: Vec<&str> = probes.iter().map(|probe| probe.name).collect();
    assert_eq!(names, probe_names());
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    for probe in &probes {
        assert!(!probe.found.is_empty(), "{probe:?}");
        assert_eq!(probe.failure().is_some(), matches!(probe.status, ProbeStatus::Fails | ProbeStatus::Absent));
    }
}

#[test]
fn a_library_that_is_none_is_not_loaded() {
    let tree = Tree::new();
    tree.write("libdwell_preload.so", "no library");
    let context =
        ProbeContext { root: Root::default(), preload_library: Some(tree.path().join("libdwell_preload.so")) };
    let probes = probe_all(&context);
    let preload = probes.iter().find(|probe| probe.name == "preload").unwrap();
    assert_eq!(preload.status, ProbeStatus::Fails, "{preload:?}");
}
