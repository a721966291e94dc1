//! Facts of machines that are not this one, from made trees of their files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use dwell_events::host::{Cache, Container, PowerSource, Sensor};
use dwell_host::{MemoryLimit, read_host_at};
use support::{Tree, amd, arm, intel};

fn cache(level: u32, kind: &str, size_bytes: u64, shared_by: u32, instances: u32) -> Cache {
    Cache { level, kind: kind.to_owned(), size_bytes, shared_by, instances }
}

#[test]
fn the_topology_of_two_sockets_is_told() {
    let topology = read_host_at(&intel().root()).topology;
    let topology = topology.available().unwrap();
    let counts = (topology.sockets, topology.cores, topology.threads, topology.threads_per_core);
    assert_eq!(counts, (2, 4, 8, 2));
    let caches = vec![
        cache(1, "Data", 48 << 10, 2, 4),
        cache(1, "Instruction", 32 << 10, 2, 4),
        cache(2, "Unified", 2 << 20, 2, 4),
        cache(3, "Unified", 12 << 20, 4, 2),
    ];
    assert_eq!(topology.caches, caches);
    let nodes: Vec<(u32, &str, Option<u64>)> = topology
        .numa_nodes
        .iter()
        .map(|node| (node.id, node.cpus.as_str(), node.memory_bytes.available().copied()))
        .collect();
    assert_eq!(nodes, [(0, "0-3", Some(8_192_000_000)), (1, "4-7", Some(8 << 30))]);
}

#[test]
fn a_processor_that_is_switched_off_is_not_counted() {
    let tree = intel();
    std::fs::remove_dir_all(tree.path().join("sys/devices/system/cpu/cpu7")).unwrap();
    tree.write("sys/devices/system/cpu/cpu7/online", "0\n");
    tree.write("sys/devices/system/cpu/cpu6/topology/core_cpus_list", "6\n");
    let topology = read_host_at(&tree.root()).topology;
    assert_eq!(topology.available().map(|topology| (topology.cores, topology.threads)), Some((4, 7)));
}

#[test]
fn frequency_power_and_kernel_of_a_laptop_are_told() {
    let facts = read_host_at(&intel().root());
    assert_eq!(facts.cpu_model.as_deref(), Some("Intel(R) Core(TM) i7-1260P"));
    assert_eq!(facts.os.as_deref(), Some("Ubuntu 24.04.1 LTS"));
    assert_eq!(facts.kernel, "6.8.0-45-generic");
    assert_eq!(facts.memory_bytes, Some(16_388_608 << 10));
    assert_eq!(facts.memory.swap_bytes, Sensor::Available(2_097_148 << 10));
    assert_eq!(facts.memory.huge_pages, Sensor::Available(3));
    assert_eq!(facts.memory.huge_page_bytes, Sensor::Available(2 << 20));
    let frequency = facts.frequency.available().unwrap();
    assert_eq!(frequency.hardware_min_mhz, Sensor::Available(400));
    assert_eq!(frequency.hardware_max_mhz, Sensor::Available(4700));
    assert_eq!(frequency.scaling_min_mhz, Sensor::Available(800));
    assert_eq!(frequency.scaling_max_mhz, Sensor::Available(3000));
    assert_eq!(frequency.governor, Sensor::Available("performance, powersave".to_owned()));
    assert_eq!(frequency.driver, Sensor::Available("intel_pstate".to_owned()));
    assert_eq!(facts.turbo, Sensor::Available(false));
    assert_eq!(facts.power_source, Sensor::Available(PowerSource::Battery));
    assert_eq!(facts.virtual_machine, Sensor::Available("none".to_owned()));
    assert_eq!(facts.container, Sensor::Available(Container::None));
    let settings = facts.kernel_settings;
    assert_eq!(settings.transparent_huge_pages, Sensor::Available("madvise".to_owned()));
    assert_eq!(settings.perf_event_paranoid, Sensor::Available(4));
    let mitigations = settings.mitigations.available().unwrap();
    assert_eq!(
        mitigations.iter().collect::<Vec<_>>(),
        [(&"spectre_v1".to_owned(), &"Mitigation: usercopy barriers".to_owned())]
    );
    let gpus = facts.gpus.available().unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].name, "Intel 0x46a6");
    assert_eq!(gpus[0].driver, Sensor::Available("i915".to_owned()));
    assert!(gpus[0].memory_bytes.reason().is_some());
}

#[test]
fn a_plugged_in_laptop_runs_on_mains() {
    let tree = intel();
    tree.write("sys/class/power_supply/AC/online", "1\n");
    assert_eq!(read_host_at(&tree.root()).power_source, Sensor::Available(PowerSource::Ac));
}

#[test]
fn amd_and_arm_tell_what_they_have() {
    let facts = read_host_at(&amd().root());
    assert_eq!(facts.turbo, Sensor::Available(true));
    let gpu = facts.gpus.available().unwrap()[0].clone();
    assert_eq!(gpu.name, "AMD 0x744c");
    assert_eq!(gpu.memory_bytes, Sensor::Available(25_753_026_560));
    assert!(facts.frequency.reason().unwrap().contains("no policy"));
    let facts = read_host_at(&arm().root());
    assert_eq!(facts.cpu_model.as_deref(), Some("Raspberry Pi 5"));
    assert!(facts.virtual_machine.reason().unwrap().contains("ARM"));
    assert!(facts.turbo.reason().unwrap().contains("no_turbo"));
}

#[test]
fn an_nvidia_card_is_listed_once_with_its_driver() {
    let tree = Tree::new();
    tree.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ: 1\n");
    tree.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version:  gcc 12.3.0\n",
    );
    tree.write("sys/class/drm/card0/device/vendor", "0x10de\n");
    tree.write("sys/class/drm/card0/device/uevent", "DRIVER=nvidia\n");
    let gpus = read_host_at(&tree.root()).gpus;
    let gpus = gpus.available().unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].name, "NVIDIA GeForce RTX 4090");
    assert_eq!(gpus[0].driver, Sensor::Available("nvidia 550.54.14".to_owned()));
}

#[test]
fn containers_are_told_by_their_marks() {
    let container = |path: &str, text: &str| {
        let tree = Tree::new();
        tree.write(path, text);
        read_host_at(&tree.root()).container.available().copied().unwrap()
    };
    assert_eq!(container(".dockerenv", ""), Container::Docker);
    assert_eq!(container("run/.containerenv", ""), Container::Podman);
    assert_eq!(container("proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice\n"), Container::Kubernetes);
    assert_eq!(container("run/systemd/container", "lxc\n"), Container::Lxc);
    assert_eq!(container("run/systemd/container", "systemd-nspawn\n"), Container::SystemdNspawn);
    assert_eq!(container("run/systemd/container", "rkt\n"), Container::Other);
    assert_eq!(container("proc/1/cgroup", "0::/init.scope\n"), Container::None);
}

#[test]
fn hypervisors_are_told_by_firmware_or_flag() {
    let hypervisor = |files: &[(&str, &str)]| {
        let tree = Tree::new();
        files.iter().for_each(|(path, text)| {
            tree.write(path, text);
        });
        read_host_at(&tree.root()).virtual_machine.available().cloned().unwrap()
    };
    let flagged = ("proc/cpuinfo", "flags\t: fpu hypervisor sse2\n");
    assert_eq!(hypervisor(&[flagged]), "a hypervisor that does not tell its name");
    assert_eq!(hypervisor(&[flagged, ("sys/class/dmi/id/sys_vendor", "QEMU\n")]), "QEMU");
    assert_eq!(hypervisor(&[("sys/hypervisor/type", "xen\n")]), "xen");
    let metal =
        [("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("sys/class/dmi/id/product_name", "m7i.metal-24xl\n")];
    assert_eq!(hypervisor(&metal), "none");
}

#[test]
fn a_machine_is_named_by_what_it_is_and_not_by_what_it_does() {
    let id = |change: fn(&Tree)| {
        let tree = intel();
        change(&tree);
        read_host_at(&tree.root()).machine_id
    };
    let same = id(|_| {});
    assert_eq!(same.len(), 12);
    assert!(same.chars().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(same, id(|tree| _ = tree.write("proc/meminfo", "MemTotal:       16388000 kB\n")));
    assert_eq!(same, id(|tree| _ = tree.write("proc/sys/kernel/osrelease", "6.9\n")));
    assert_eq!(same, id(|tree| _ = tree.write("etc/machine-id", "00112233\n")));
    assert_ne!(same, id(|tree| _ = tree.write("proc/sys/kernel/hostname", "other\n")));
    assert_ne!(same, id(|tree| _ = tree.write("proc/meminfo", "MemTotal:       32777216 kB\n")));
}

#[test]
fn an_empty_tree_gives_reasons_and_no_values() {
    let facts = read_host_at(&Tree::new().root());
    assert_eq!((facts.cpu_model, facts.memory_bytes, facts.os), (None, None, None));
    let reasons = [
        facts.topology.reason().map(str::to_owned),
        facts.frequency.reason().map(str::to_owned),
        facts.turbo.reason().map(str::to_owned),
        facts.power_source.reason().map(str::to_owned),
        facts.virtual_machine.reason().map(str::to_owned),
        facts.memory.swap_bytes.reason().map(str::to_owned),
        facts.kernel_settings.transparent_huge_pages.reason().map(str::to_owned),
        facts.kernel_settings.perf_event_paranoid.reason().map(str::to_owned),
        facts.kernel_settings.mitigations.reason().map(str::to_owned),
    ];
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
}

#[test]
fn the_tightest_limit_of_memory_holds() {
    let tree = Tree::new();
    let limit = || MemoryLimit::read_at(&tree.root()).map(|limit| (limit.total_bytes, limit.available_bytes));
    assert_eq!(limit(), None);
    tree.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 800 kB\n");
    assert_eq!(limit(), Some((1000 << 10, 800 << 10)));
    tree.write("proc/self/cgroup", "4:cpu,memory:/one\n0::/two/three\n");
    tree.write("sys/fs/cgroup/two/three/memory.max", "max\n");
    tree.write("sys/fs/cgroup/two/three/memory.current", "1\n");
    assert_eq!(limit(), Some((1000 << 10, 800 << 10)));
    tree.write("sys/fs/cgroup/two/memory.max", "600000\n");
    tree.write("sys/fs/cgroup/two/memory.current", "100000\n");
    assert_eq!(limit(), Some((600_000, 500_000)));
    tree.write("sys/fs/cgroup/memory/one/memory.limit_in_bytes", "400000\n");
    tree.write("sys/fs/cgroup/memory/one/memory.usage_in_bytes", "500000\n");
    assert_eq!(limit(), Some((400_000, 0)));
}

#[test]
fn in_a_container_the_limit_is_at_the_root_of_its_groups() {
    let tree = Tree::new();
    tree.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 800 kB\n");
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("sys/fs/cgroup/memory.max", "500000\n");
    tree.write("sys/fs/cgroup/memory.current", "100000\n");
    let expected = MemoryLimit { total_bytes: 500_000, available_bytes: 400_000 };
    assert_eq!(MemoryLimit::read_at(&tree.root()), Some(expected));
}
