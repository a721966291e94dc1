//! The events by which a processor samples loads and stores with their addresses, as the kernel describes them.
//!
//! Intel has events of loads and stores, for each sort of cores; AMD samples operations of all kinds (IBS), of which loads and stores
//! have addresses; Arm has a unit with a buffer of its own (SPE), which is not read.

use dwell_perf::{Attributes, SampledEvent, flags};

use crate::cpu_list;
use crate::root::Root;

const DEVICES: &str = "sys/bus/event_source/devices";
/// Units of Intel that have the events; those with two sorts of cores name them apart.
const INTEL_UNITS: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];
const AMD_UNIT: &str = "ibs_op";
const ARM_UNIT: &str = "arm_spe_0";
/// The unit of AMD takes its period in steps of so many operations, and none below this.
const AMD_PERIOD_STEP: u64 = 16;
const AMD_LEAST_PERIOD: u64 = 0x90;
/// It takes the threshold of latency in steps of so many cycles.
const AMD_LATENCY_STEP: u64 = 128;

/// How often memory accesses are sampled, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySampling {
    /// Events from one sample to the next.
    pub period: u64,
    /// Loads that took fewer cycles are left out, where the processor can do that.
    pub least_latency_cycles: u64,
}

/// Why a processor cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMemoryEvents {
    /// There is no unit for it.
    NoUnit(String),
    /// There is one whose samples cannot be read.
    NotReadable(String),
}

impl NoMemoryEvents {
    /// The reason, as a sentence.
    pub fn reason(&self) -> &str {
        match self {
            Self::NoUnit(reason) | Self::NotReadable(reason) => reason,
        }
    }
}

/// The events of this machine.
pub fn memory_events(root: &Root, sampling: MemorySampling) -> Result<Vec<SampledEvent>, NoMemoryEvents> {
    let intel: Vec<SampledEvent> = INTEL_UNITS.iter().flat_map(|unit| intel(root, unit, sampling)).collect();
    if !intel.is_empty() {
        return Ok(intel);
    }
    if let Some(event) = amd(root, sampling) {
        return Ok(vec![event]);
    }
    Err(match root.exists(&format!("{DEVICES}/{ARM_UNIT}/type")) {
        true => NoMemoryEvents::NotReadable(format!(
            "this machine has {ARM_UNIT} (Arm SPE), whose samples come through a buffer of their own that dwell does not read"
        )),
        false => NoMemoryEvents::NoUnit(format!(
            "/{DEVICES} has neither cpu/events/mem-loads (Intel) nor {AMD_UNIT} (AMD) nor {ARM_UNIT} (Arm)"
        )),
    })
}

fn intel(root: &Root, unit: &str, sampling: MemorySampling) -> Vec<SampledEvent> {
    let cpus = root.word(&format!("{DEVICES}/{unit}/cpus")).and_then(|list| cpu_list::members(&list));
    let latency = sampling.least_latency_cycles;
    let sampled = |attributes: Attributes| Attributes { period: sampling.period, ..attributes.with(flags::PRECISE) };
    let loads = event(root, unit, "mem-loads", &[("ldlat", latency)]).map(|attributes| SampledEvent {
        name: format!("{unit}/mem-loads,ldlat={latency}/"),
        leader: event(root, unit, "mem-loads-aux", &[]),
        attributes: sampled(attributes),
        cpus: cpus.clone(),
    });
    let stores = event(root, unit, "mem-stores", &[]).map(|attributes| SampledEvent {
        name: format!("{unit}/mem-stores/"),
        leader: None,
        attributes: sampled(attributes),
        cpus,
    });
    loads.into_iter().chain(stores).collect()
}

/// Counts operations rather than cycles, where it can. Kernels before 6.14 cannot leave out what the kernel does.
fn amd(root: &Root, sampling: MemorySampling) -> Option<SampledEvent> {
    let kind = root.number(&format!("{DEVICES}/{AMD_UNIT}/type"))?;
    let mut attributes = Attributes::of_user(kind, 0);
    let has = |format: &str| root.exists(&format!("{DEVICES}/{AMD_UNIT}/format/{format}"));
    let (mut name, latency) = (Vec::new(), sampling.least_latency_cycles);
    for (format, value) in [("cnt_ctl", 1), ("swfilt", 1), ("ldlat", latency / AMD_LATENCY_STEP * AMD_LATENCY_STEP)] {
        if has(format) && value > 0 {
            put(root, AMD_UNIT, format, value, &mut attributes)?;
            name.push(format!("{format}={value}"));
        }
    }
    if !has("swfilt") {
        attributes = attributes.without(flags::EXCLUDE_KERNEL | flags::EXCLUDE_HYPERVISOR);
    }
    attributes.period = sampling.period.max(AMD_LEAST_PERIOD).next_multiple_of(AMD_PERIOD_STEP);
    let name = format!("{AMD_UNIT}/{}/", name.join(","));
    Some(SampledEvent { name, leader: None, attributes, cpus: None })
}

/// An event as the kernel describes it: `event=0xcd,umask=0x1,ldlat=3`, some of its parts with another value.
fn event(root: &Root, unit: &str, name: &str, changed: &[(&str, u64)]) -> Option<Attributes> {
    let kind = root.number(&format!("{DEVICES}/{unit}/type"))?;
    let mut attributes = Attributes::of_user(kind, 0);
    for part in root.word(&format!("{DEVICES}/{unit}/events/{name}"))?.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, "1"));
        let changed = changed.iter().find(|(changed, _)| *changed == key);
        let value = changed.map_or_else(|| parse_number(value), |(_, value)| Some(*value))?;
        put(root, unit, key, value, &mut attributes)?;
    }
    Some(attributes)
}

/// Puts the value of a part where `format` says: `config:0-7`, or `config:8-15,40-47` for one in pieces.
fn put(root: &Root, unit: &str, key: &str, mut value: u64, attributes: &mut Attributes) -> Option<()> {
    let format = root.word(&format!("{DEVICES}/{unit}/format/{key}"))?;
    let (word, pieces) = format.split_once(':')?;
    let word = match word {
        "config" => &mut attributes.config,
        "config1" => &mut attributes.config1,
        "config2" => &mut attributes.config2,
        _ => return None,
    };
    for piece in pieces.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let bits = last.checked_sub(first)?.checked_add(1).filter(|_| last < 64)?;
        let mask = u64::MAX >> (64 - bits);
        *word |= (value & mask) << first;
        value = value.checked_shr(bits).unwrap_or(0);
    }
    // A value with more bits than there is room for would ask for something else.
    (value == 0).then_some(())
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
