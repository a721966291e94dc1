//! Events of memory accesses of machines that are not this one, from made trees of their files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use dwell_host::{MemorySampling, NoMemoryEvents, memory_events};
use dwell_perf::flags;
use support::Tree;

const SAMPLING: MemorySampling = MemorySampling { period: 4001, least_latency_cycles: 30 };
const FORMATS: [(&str, &str); 3] = [("event", "config:0-7"), ("umask", "config:8-15"), ("ldlat", "config1:0-15")];

fn unit(tree: &Tree, name: &str, kind: u32, files: &[(&str, &str)]) {
    let file = |path: &str| format!("sys/bus/event_source/devices/{name}/{path}");
    tree.write(&file("type"), &format!("{kind}\n"));
    for (path, text) in files {
        tree.write(&file(path), &format!("{text}\n"));
    }
}

fn intel(tree: &Tree, name: &str, kind: u32, events: &[(&str, &str)]) {
    let formats: Vec<(String, &str)> = FORMATS.iter().map(|(key, text)| (format!("format/{key}"), *text)).collect();
    let events: Vec<(String, &str)> = events.iter().map(|(key, text)| (format!("events/{key}"), *text)).collect();
    let files: Vec<(&str, &str)> = formats.iter().chain(&events).map(|(path, text)| (path.as_str(), *text)).collect();
    unit(tree, name, kind, &files);
}

#[test]
fn intel_samples_loads_above_the_threshold_and_stores() {
    let tree = Tree::new();
    intel(&tree, "cpu", 4, &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3"), ("mem-stores", "event=0xd0,umask=0x82")]);
    let events = memory_events(&tree.root(), SAMPLING).unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cpu/mem-loads,ldlat=30/", "cpu/mem-stores/"]);
    let [loads, stores] = &events[..] else { panic!("{events:?}") };
    assert_eq!((loads.attributes.kind, loads.attributes.config, loads.attributes.config1), (4, 0x1cd, 30));
    assert_eq!((stores.attributes.config, stores.attributes.config1, stores.attributes.period), (0x82d0, 0, 4001));
    assert_eq!(loads.attributes.flags, flags::PRECISE | flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR);
    assert!(loads.leader.is_none() && loads.cpus.is_none());
}

#[test]
fn both_sorts_of_cores_have_their_own_events_processors_and_leaders() {
    let tree = Tree::new();
    let core = [
        ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
        ("mem-loads-aux", "event=0x03,umask=0x82"),
        ("mem-stores", "event=0xcd,umask=0x2"),
    ];
    intel(&tree, "cpu_core", 4, &core);
    unit(&tree, "cpu_core", 4, &[("cpus", "0-11"), ("format/umask", "config:8-15,40-47")]);
    intel(
        &tree,
        "cpu_atom",
        10,
        &[("mem-loads", "event=0xd0,umask=0x5,ldlat=3"), ("mem-stores", "event=0xd0,umask=0x6")],
    );
    unit(&tree, "cpu_atom", 10, &[("cpus", "12-15")]);
    let events = memory_events(&tree.root(), SAMPLING).unwrap();
    let seen: Vec<(&str, u32, u64, usize)> = events
        .iter()
        .map(|event| (&*event.name, event.attributes.kind, event.attributes.config, event.cpus.as_ref().unwrap().len()))
        .collect();
    let expected = [
        ("cpu_core/mem-loads,ldlat=30/", 4, 0x1cd, 12),
        ("cpu_core/mem-stores/", 4, 0x2cd, 12),
        ("cpu_atom/mem-loads,ldlat=30/", 10, 0x5d0, 4),
        ("cpu_atom/mem-stores/", 10, 0x6d0, 4),
    ];
    assert_eq!(seen, expected);
    assert_eq!(events[0].leader.map(|leader| (leader.config, leader.period)), Some((0x8203, 0)));
    assert!(events[1..].iter().all(|event| event.leader.is_none()));
}

#[test]
fn an_event_that_the_files_do_not_describe_wholly_is_not_made_up() {
    let tree = Tree::new();
    intel(&tree, "cpu", 4, &[("mem-loads", "event=0xcd,umask=0x1,unheard=1"), ("mem-stores", "event=0xfff")]);
    assert!(matches!(memory_events(&tree.root(), SAMPLING), Err(NoMemoryEvents::NoUnit(_))));
}

#[test]
fn amd_samples_operations_in_steps_of_sixteen_and_leaves_the_kernel_out_where_it_can() {
    let tree = Tree::new();
    unit(&tree, "ibs_op", 11, &[("format/cnt_ctl", "config:19")]);
    let old = memory_events(&tree.root(), SAMPLING).unwrap();
    assert_eq!((&*old[0].name, old[0].attributes.config), ("ibs_op/cnt_ctl=1/", 1 << 19));
    assert_eq!((old[0].attributes.period, old[0].attributes.flags), (4016, 0));
    unit(&tree, "ibs_op", 11, &[("format/swfilt", "config2:0"), ("format/ldlat", "config1:0-11")]);
    let new = memory_events(&tree.root(), MemorySampling { period: 1, least_latency_cycles: 300 }).unwrap();
    assert_eq!(new[0].name, "ibs_op/cnt_ctl=1,swfilt=1,ldlat=256/");
    let attributes = new[0].attributes;
    assert_eq!((attributes.config1, attributes.config2, attributes.period), (256, 1, 144));
    assert_eq!(attributes.flags, flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR);
}

#[test]
fn arm_spe_is_named_as_what_cannot_be_read_and_no_unit_as_none() {
    let tree = Tree::new();
    let none = memory_events(&tree.root(), SAMPLING).unwrap_err();
    assert!(matches!(&none, NoMemoryEvents::NoUnit(reason) if reason.contains("ibs_op")), "{none:?}");
    unit(&tree, "arm_spe_0", 9, &[]);
    let spe = memory_events(&tree.root(), SAMPLING).unwrap_err();
    assert!(matches!(&spe, NoMemoryEvents::NotReadable(reason) if reason.contains("Arm SPE")), "{spe:?}");
}
