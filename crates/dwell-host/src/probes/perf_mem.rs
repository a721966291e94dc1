//! Sampled loads with their addresses, by whichever unit the processor has for it.

use std::io;

use dwell_events::host::Outcome;

use super::refusal::refused;
use super::syscalls::{Pages, PerfAttributes, PerfEvent};
use super::{ProbeContext, perf};
use crate::root::Root;

const DEVICES: &str = "sys/bus/event_source/devices";
/// Units of Intel that have the event of loads; those with two sorts of cores name the big ones apart.
const INTEL_UNITS: [&str; 2] = ["cpu", "cpu_core"];
/// Loads between two samples; a prime, so that loops do not hide.
const PERIOD: u64 = 1009;
/// Memory that is read, larger than the first caches.
const READ_PAGES: usize = 256;
/// The ring must be a power of two of pages.
const RING_PAGES: usize = 8;

/// A unit that can sample loads, and the event to ask it for.
struct Unit {
    name: String,
    attributes: PerfAttributes,
    /// An event that newer Intel processors want opened first.
    leader: Option<PerfAttributes>,
}

pub(super) fn probe(context: &ProbeContext) -> Outcome {
    let root = &context.root;
    if root.exists(&format!("{DEVICES}/arm_spe_0/type")) {
        return arm_spe(root);
    }
    let Some(unit) = intel(root).or_else(|| amd(root)) else {
        return Outcome::absent(format!(
            "/{DEVICES} has neither cpu/events/mem-loads (Intel) nor ibs_op (AMD) nor arm_spe_0 (ARM)"
        ));
    };
    match sampled_addresses(&unit) {
        Ok(0) => Outcome::fails(format!("{} was opened and gave no sample with an address", unit.name)),
        Ok(count) => Outcome::works(format!("{} gave {count} samples with addresses", unit.name)),
        Err(error) => perf::refusal(root, &error),
    }
}

fn sampled_addresses(unit: &Unit) -> io::Result<usize> {
    let mut pages = Pages::new(READ_PAGES)?;
    pages.touch_all();
    let leader = unit.leader.map(|attributes| PerfEvent::open(&attributes, None)).transpose()?;
    let event = PerfEvent::open(&unit.attributes, leader.as_ref())?;
    let ring = event.ring(RING_PAGES)?;
    (0..64).for_each(|_| pages.read_all());
    Ok(ring.addresses().into_iter().filter(|&address| address != 0).count())
}

fn intel(root: &Root) -> Option<Unit> {
    let unit = INTEL_UNITS.iter().find(|unit| root.exists(&format!("{DEVICES}/{unit}/events/mem-loads")))?;
    let attributes = event(root, unit, "mem-loads")?.sampled(PERIOD).precise();
    Some(Unit { name: format!("{unit}/mem-loads/"), attributes, leader: event(root, unit, "mem-loads-aux") })
}

fn amd(root: &Root) -> Option<Unit> {
    let kind = root.number(&format!("{DEVICES}/ibs_op/type"))?;
    // Samples operations of all kinds, of which loads have addresses; it cannot leave the kernel out.
    let attributes = PerfAttributes::new(kind, 0).with_kernel().sampled(PERIOD.next_multiple_of(16) * 16);
    Some(Unit { name: "ibs_op".to_owned(), attributes, leader: None })
}

/// Its records come through a buffer of their own, which is not read here.
fn arm_spe(root: &Root) -> Outcome {
    let Some(kind) = root.number(&format!("{DEVICES}/arm_spe_0/type")) else {
        return Outcome::fails(format!("/{DEVICES}/arm_spe_0/type holds no number"));
    };
    match PerfEvent::open(&PerfAttributes::new(kind, 0).sampled(PERIOD), None) {
        Ok(_) => Outcome::degraded("arm_spe_0 was opened; its samples were not looked at"),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            Outcome::absent(refused("perf_event_open of arm_spe_0", &error))
        }
        Err(error) => perf::refusal(root, &error),
    }
}

/// An event as the kernel describes it: `event=0xcd,umask=0x1,ldlat=3`, with the place of each part under `format`.
fn event(root: &Root, unit: &str, name: &str) -> Option<PerfAttributes> {
    let kind = root.number(&format!("{DEVICES}/{unit}/type"))?;
    let mut attributes = PerfAttributes::new(kind, 0);
    for part in root.word(&format!("{DEVICES}/{unit}/events/{name}"))?.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, "1"));
        let value = parse_number(value)?;
        let format = root.word(&format!("{DEVICES}/{unit}/format/{key}"))?;
        let (word, bits) = format.split_once(':')?;
        let shift: u32 = bits.split(['-', ',']).next()?.parse().ok()?;
        let shifted = value.checked_shl(shift)?;
        match word {
            "config" => attributes.config |= shifted,
            "config1" => attributes.config1 |= shifted,
            _ => return None,
        }
    }
    Some(attributes)
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn the_event_of_loads_is_put_together_as_the_kernel_says() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(DEVICES).join("cpu").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("type", "4\n");
        write("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        write("format/event", "config:0-7\n");
        write("format/umask", "config:8-15\n");
        write("format/ldlat", "config1:0-15\n");
        let unit = intel(&Root::at(dir.path())).unwrap();
        assert_eq!(unit.name, "cpu/mem-loads/");
        let attributes = unit.attributes;
        assert_eq!((attributes.kind, attributes.config, attributes.config1), (4, 0x1cd, 3));
        assert!(unit.leader.is_none());
    }
}
