//! What the machine stands on: mains or battery, container, hypervisor.

use dwell_events::host::{Container, PowerSource, Sensor};

use super::value_of;
use crate::root::Root;

const SUPPLIES: &str = "sys/class/power_supply";
const DMI: &str = "sys/class/dmi/id";

pub(super) fn power_source(root: &Root) -> Sensor<PowerSource> {
    let supplies = root.names(SUPPLIES);
    let fact = |supply: &String, name: &str| root.word(&format!("{SUPPLIES}/{supply}/{name}"));
    let is_type = |supply: &&String, kind: &str| fact(supply, "type").as_deref() == Some(kind);
    // A laptop fed through USB-C has its mains there. What is of a device, like a mouse, feeds not this machine.
    let feeds_machine = |supply: &&String| fact(supply, "scope").as_deref() != Some("Device");
    let is_mains = |supply: &&String| is_type(supply, "Mains") || is_type(supply, "USB");
    let is_online = |supply: &String| fact(supply, "online").as_deref().is_some_and(|online| online != "0");
    let own: Vec<&String> = supplies.iter().filter(feeds_machine).collect();
    if own.iter().copied().filter(|supply| is_mains(supply)).any(is_online) {
        return Sensor::Available(PowerSource::Ac);
    }
    let mut batteries = own.iter().copied().filter(|supply| is_type(supply, "Battery")).peekable();
    if batteries.peek().is_none() {
        return Sensor::not_available(format!("/{SUPPLIES} lists neither battery nor mains, as on servers"));
    }
    // Some machines have no file for the mains; their battery then says that it is not drained.
    match batteries.any(|supply| fact(supply, "status").as_deref() == Some("Discharging")) {
        true => Sensor::Available(PowerSource::Battery),
        false => Sensor::Available(PowerSource::Ac),
    }
}

pub(super) fn container(root: &Root) -> Sensor<Container> {
    let cgroups = root.text("proc/1/cgroup").or_else(|_| root.text("proc/self/cgroup")).unwrap_or_default();
    let is_pod = root.exists("var/run/secrets/kubernetes.io") || cgroups.contains("kubepods");
    let named = root.word("run/systemd/container");
    let container = match named.as_deref() {
        _ if is_pod => Container::Kubernetes,
        _ if root.exists("run/.containerenv") => Container::Podman,
        _ if root.exists(".dockerenv") => Container::Docker,
        Some(name) => by_name(name),
        None => by_cgroup(&cgroups),
    };
    Sensor::Available(container)
}

fn by_name(name: &str) -> Container {
    match name {
        "docker" => Container::Docker,
        "podman" => Container::Podman,
        "lxc" | "lxc-libvirt" | "incus" => Container::Lxc,
        "systemd-nspawn" => Container::SystemdNspawn,
        _ => Container::Other,
    }
}

/// The first process of a machine is in no group of a container manager.
fn by_cgroup(cgroups: &str) -> Container {
    let marks = [
        ("docker", Container::Docker),
        ("libpod", Container::Podman),
        ("lxc", Container::Lxc),
        ("machine.slice", Container::SystemdNspawn),
    ];
    marks.iter().find(|(mark, _)| cgroups.contains(mark)).map_or(Container::None, |&(_, container)| container)
}

pub(super) fn virtual_machine(root: &Root) -> Sensor<String> {
    if let Some(kind) = root.word("sys/hypervisor/type") {
        return Sensor::Available(kind);
    }
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = value_of(&cpuinfo, "flags", ':');
    let is_flagged =
        flags.as_ref().is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let dmi: Vec<String> = ["sys_vendor", "product_name", "bios_vendor"]
        .iter()
        .filter_map(|name| root.word(&format!("{DMI}/{name}")))
        .collect();
    match hypervisor_by_dmi(&dmi.join("\n")) {
        Some(name) => Sensor::Available(name.to_owned()),
        None if is_flagged => Sensor::Available("a hypervisor that does not tell its name".to_owned()),
        None if flags.is_some() || !dmi.is_empty() => Sensor::Available("none".to_owned()),
        None => Sensor::not_available("neither processor flags nor firmware tell, as on most ARM boards"),
    }
}

fn hypervisor_by_dmi(dmi: &str) -> Option<&'static str> {
    // Clouds rent out whole machines too, with their own name in the firmware.
    if dmi.contains(".metal") {
        return None;
    }
    let marks = [
        ("Amazon EC2", "Amazon EC2"),
        ("Google Compute Engine", "Google Compute Engine"),
        ("Virtual Machine", "Hyper-V"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Parallels", "Parallels"),
        ("OpenStack", "OpenStack"),
        ("KVM", "KVM"),
        ("QEMU", "QEMU"),
        ("BOCHS", "QEMU"),
    ];
    marks.iter().find(|(mark, _)| dmi.contains(mark)).map(|&(_, name)| name)
}
