//! Limits and rules of the processors' frequency, from cpufreq.

use std::collections::BTreeSet;

use dwell_events::host::{FrequencyLimits, Sensor};

use crate::root::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// Folder of the cpufreq policies.
pub(crate) const POLICIES: &str = "sys/devices/system/cpu/cpufreq";

pub(super) fn read(root: &Root) -> Sensor<FrequencyLimits> {
    let policies = root.numbered(POLICIES, "policy");
    if policies.is_empty() {
        return Sensor::not_available(format!("/{POLICIES} has no policy: no cpufreq driver is at work"));
    }
    let words = |name: &str| -> BTreeSet<String> {
        policies.iter().filter_map(|policy| root.word(&format!("{POLICIES}/{policy}/{name}"))).collect()
    };
    let mhz = |name: &str, choose: fn(u64, u64) -> u64| {
        let found = words(name).iter().filter_map(|khz| khz.parse::<u64>().ok()).reduce(choose);
        Sensor::from_option(found, format!("no policy tells {name}")).map(|khz| khz / 1000)
    };
    let names = |name: &str| {
        let found = words(name).into_iter().collect::<Vec<_>>().join(", ");
        Sensor::from_option(Some(found).filter(|found| !found.is_empty()), format!("no policy tells {name}"))
    };
    Sensor::Available(FrequencyLimits {
        hardware_min_mhz: mhz("cpuinfo_min_freq", u64::min),
        hardware_max_mhz: mhz("cpuinfo_max_freq", u64::max),
        scaling_min_mhz: mhz("scaling_min_freq", u64::min),
        scaling_max_mhz: mhz("scaling_max_freq", u64::max),
        governor: names("scaling_governor"),
        driver: names("scaling_driver"),
    })
}

pub(super) fn turbo(root: &Root) -> Sensor<bool> {
    let switched_off: Option<u8> = root.number(&format!("{CPUS}/intel_pstate/no_turbo"));
    let switched_on: Option<u8> = root.number(&format!("{POLICIES}/boost"));
    let turbo = switched_off.map(|off| off == 0).or(switched_on.map(|on| on != 0));
    Sensor::from_option(turbo, format!("there is neither /{CPUS}/intel_pstate/no_turbo nor /{POLICIES}/boost"))
}
