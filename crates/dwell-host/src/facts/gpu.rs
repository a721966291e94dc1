//! Graphics processors, from the drivers' files.

use std::process::{Command, Stdio};

use dwell_events::host::{Gpu, Sensor};

use super::value_of;
use crate::root::Root;

const NVIDIA: &str = "proc/driver/nvidia";
const DRM: &str = "sys/class/drm";

/// All that the drivers list.
pub(crate) fn gpus(root: &Root) -> Sensor<Vec<Gpu>> {
    let mut gpus = nvidia(root);
    gpus.extend(drm(root, !gpus.is_empty()));
    Sensor::Available(gpus)
}

/// The cards that NVIDIA's driver lists.
fn nvidia(root: &Root) -> Vec<Gpu> {
    let folder = format!("{NVIDIA}/gpus");
    let cards = root.names(&folder);
    if cards.is_empty() {
        return Vec::new();
    }
    let version = root.text(&format!("{NVIDIA}/version")).ok().and_then(|text| nvidia_version(&text));
    let driver = Sensor::from_option(version, format!("/{NVIDIA}/version does not tell"));
    // The driver's files do not tell the memory; its tool does.
    let memory = nvidia_smi_memory(root);
    let card = |name: String| {
        let text = root.text(&format!("{folder}/{name}/information")).unwrap_or_default();
        let bytes = memory.as_ref().ok().and_then(|lines| memory_of(lines, &name));
        let reason = memory.as_ref().err().cloned().unwrap_or_else(|| format!("nvidia-smi does not list {name}"));
        Gpu {
            name: value_of(&text, "Model", ':').unwrap_or(name),
            memory_bytes: Sensor::from_option(bytes, reason),
            driver: driver.clone(),
        }
    };
    cards.into_iter().map(card).collect()
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 …`
fn nvidia_version(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    text.lines().next()?.split_ascii_whitespace().find(is_version).map(|version| format!("nvidia {version}"))
}

/// Lines of bus address and memory in MiB.
fn nvidia_smi_memory(root: &Root) -> Result<String, String> {
    if *root != Root::default() {
        return Err("nvidia-smi speaks of the running machine only".to_owned());
    }
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=pci.bus_id,memory.total", "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("starting nvidia-smi failed with {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("nvidia-smi ended with {}", output.status)),
    }
}

/// The tool writes a longer domain (`00000000:01:00.0`) than the driver's folder (`0000:01:00.0`).
fn memory_of(lines: &str, bus_address: &str) -> Option<u64> {
    let line = lines.lines().find_map(|line| {
        let (address, mebibytes) = line.split_once(',')?;
        address.trim().to_lowercase().ends_with(&bus_address.to_lowercase()).then_some(mebibytes)
    })?;
    line.trim().parse::<u64>().ok().map(|mebibytes| mebibytes << 20)
}

/// The cards of the kernel's own drivers.
fn drm(root: &Root, has_nvidia: bool) -> Vec<Gpu> {
    let card = |name: String| {
        let device = format!("{DRM}/{name}/device");
        let vendor = root.word(&format!("{device}/vendor"))?;
        let id = root.word(&format!("{device}/device")).unwrap_or_default();
        let driver = root.text(&format!("{device}/uevent")).ok().and_then(|text| value_of(&text, "DRIVER", '='));
        if has_nvidia && driver.as_deref() == Some("nvidia") {
            return None;
        }
        Some(Gpu {
            name: format!("{} {id}", vendor_name(&vendor)).trim_end().to_owned(),
            memory_bytes: Sensor::from_option(
                root.number(&format!("{device}/mem_info_vram_total")),
                "the driver does not tell; it may use the machine's memory",
            ),
            driver: Sensor::from_option(driver, format!("/{device}/uevent does not tell")),
        })
    };
    root.numbered(DRM, "card").into_iter().filter_map(card).collect()
}

fn vendor_name(vendor: &str) -> &str {
    match vendor {
        "0x8086" => "Intel",
        "0x1002" => "AMD",
        "0x10de" => "NVIDIA",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_the_bus_address() {
        let lines = "00000000:01:00.0, 8192\n00000000:41:00.0, 24576\n";
        assert_eq!(memory_of(lines, "0000:41:00.0"), Some(24_576 << 20));
        assert_eq!(memory_of(lines, "0000:42:00.0"), None);
    }
}
