//! Sockets, cores, caches and NUMA nodes, from `/sys/devices/system`.

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::host::{Cache, NumaNode, Sensor, Topology};

use crate::cpu_list;
use crate::root::Root;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

pub(super) fn read(root: &Root) -> Sensor<Topology> {
    let cpus = root.numbered(CPUS, "cpu");
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut threads = 0;
    for cpu in &cpus {
        let fact = |name: &str| root.word(&format!("{CPUS}/{cpu}/topology/{name}"));
        // A processor that is switched off has none.
        let Some(siblings) = fact("core_cpus_list").or_else(|| fact("thread_siblings_list")) else { continue };
        threads += 1;
        packages.insert(fact("physical_package_id"));
        cores.insert(siblings);
    }
    if threads == 0 {
        return Sensor::not_available(format!("no processor in /{CPUS} tells its topology"));
    }
    Sensor::Available(Topology {
        sockets: packages.len() as u32,
        cores: cores.len() as u32,
        threads,
        threads_per_core: cores.iter().filter_map(|list| cpu_list::count(list)).max().unwrap_or(1),
        caches: caches(root, &cpus),
        numa_nodes: numa_nodes(root),
    })
}

fn caches(root: &Root, cpus: &[String]) -> Vec<Cache> {
    // Every processor lists the caches that it uses, so a shared one is met once for each of them.
    let mut sorts: BTreeMap<(u32, String, u64), BTreeSet<String>> = BTreeMap::new();
    for cpu in cpus {
        let folder = format!("{CPUS}/{cpu}/cache");
        for index in root.numbered(&folder, "index") {
            let fact = |name: &str| root.word(&format!("{folder}/{index}/{name}"));
            let level = fact("level").and_then(|level| level.parse().ok());
            let size_bytes = fact("size").and_then(|size| size_in_bytes(&size));
            if let (Some(level), Some(kind), Some(size_bytes), Some(list)) =
                (level, fact("type"), size_bytes, fact("shared_cpu_list"))
            {
                sorts.entry((level, kind, size_bytes)).or_default().insert(list);
            }
        }
    }
    let cache = |((level, kind, size_bytes), lists): ((u32, String, u64), BTreeSet<String>)| Cache {
        level,
        kind,
        size_bytes,
        shared_by: lists.iter().filter_map(|list| cpu_list::count(list)).max().unwrap_or(1),
        instances: lists.len() as u32,
    };
    sorts.into_iter().map(cache).collect()
}

/// A size like `32K`.
fn size_in_bytes(text: &str) -> Option<u64> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[unit..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    text[..unit].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn numa_nodes(root: &Root) -> Vec<NumaNode> {
    let node = |name: String| {
        let id = name.trim_start_matches("node").parse().ok()?;
        let folder = format!("{NODES}/{name}");
        let cpus = root.word(&format!("{folder}/cpulist")).unwrap_or_default();
        Some(NumaNode { id, cpus, memory_bytes: node_memory(root, &folder) })
    };
    root.numbered(NODES, "node").into_iter().filter_map(node).collect()
}

fn node_memory(root: &Root, folder: &str) -> Sensor<u64> {
    // Node 0 MemTotal:       16314264 kB
    let kibibytes = root.text(&format!("{folder}/meminfo")).ok().and_then(|text| {
        let (_, value) = text.lines().find_map(|line| line.split_once("MemTotal:"))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Sensor::from_option(kibibytes, format!("/{folder}/meminfo does not tell")).map(|kibibytes| kibibytes * 1024)
}
