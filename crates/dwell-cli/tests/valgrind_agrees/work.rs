//! The comparison of what kernels keep in the work buffer.

use std::collections::BTreeMap;

use dwell_records::{Graph, Kind, Step};

use crate::agreement::compare_bytes;
use crate::bytes::{ByteSet, Touched};
use crate::claims::{raw_records, regions};
use crate::common::Run;
use crate::witness::{Seen, Window};

/// Rows from which products with K-quants are computed in tiles, which are not claimed.
const TILED_ROWS: i64 = 8;

/// What was claimed and what was seen of the operations that ended at one time.
#[derive(Default)]
struct Operations {
    claimed: Touched,
    observed: Touched,
    /// Whether all that they touch of the buffer is claimed.
    is_whole: bool,
    names: Vec<String>,
}

/// Compares, with one thread operation by operation, and says how many bytes agree.
pub fn compare_work(name: &str, run: &Run, seen: &Seen, threads: &str) -> u64 {
    let buffers = regions(run, "work_buffer");
    let claimed = claimed_by_time(run);
    if threads != "1" {
        return contained(name, &claimed, seen, &buffers);
    }
    let mut agreed = 0;
    for (at_ns, mut operations) in by_time(run, seen, claimed) {
        if !operations.is_whole {
            let extent = operations.claimed.stores.clone();
            operations.observed.stores.keep(Some(&extent));
            operations.observed.loads.keep(Some(&extent));
        }
        let subject = |what: &str| format!("{name}: work {what} at {at_ns} ns, {:?}", operations.names);
        let Operations { claimed, observed, .. } = &operations;
        agreed += compare_bytes(&subject("stores"), &claimed.stores, &observed.stores, &buffers);
        agreed += compare_bytes(&subject("loads"), &claimed.loads, &observed.loads, &buffers);
    }
    agreed
}

/// With several threads operations cannot be told apart: what is claimed of any of them was touched.
fn contained(name: &str, claimed: &BTreeMap<u64, Touched>, seen: &Seen, buffers: &[(u64, u64)]) -> u64 {
    let (mut all_claimed, mut all_seen) = (Touched::default(), Touched::default());
    claimed.values().for_each(|touched| all_claimed.extend(touched));
    seen.windows.iter().for_each(|window| all_seen.extend(&window.touched()));
    let missing = |claimed: &ByteSet, seen: &ByteSet| claimed.compare(seen, buffers);
    let (stores, loads) =
        (missing(&all_claimed.stores, &all_seen.stores), missing(&all_claimed.loads, &all_seen.loads));
    assert_eq!((stores.only_here, loads.only_here), (0, 0), "{name}: stored and loaded by nobody");
    stores.both + loads.both
}

fn claimed_by_time(run: &Run) -> BTreeMap<u64, Touched> {
    let mut claimed: BTreeMap<u64, Touched> = BTreeMap::new();
    for access in run.accesses().into_iter().filter(|access| access.region_type == "work_buffer") {
        let touched = claimed.entry(access.timestamp_ns).or_default();
        touched.add(access.is_store, access.address, access.size_bytes);
    }
    claimed
}

fn by_time(run: &Run, seen: &Seen, claimed: BTreeMap<u64, Touched>) -> BTreeMap<u64, Operations> {
    let mut by_time: BTreeMap<u64, Operations> = BTreeMap::new();
    for ((graph, step), window) in computed(run).iter().zip(&seen.windows) {
        add_operations(graph, step, window, &mut by_time);
    }
    for (at_ns, touched) in claimed {
        by_time.get_mut(&at_ns).expect("claimed when an operation ended").claimed = touched;
    }
    by_time
}

fn add_operations(graph: &Graph, step: &Step, window: &Window, by_time: &mut BTreeMap<u64, Operations>) {
    assert_eq!(window.operations.len(), graph.units.len() + 1, "operations recorded and seen by valgrind");
    for ((unit, at_ns), observed) in graph.units.iter().zip(&step.times_ns).zip(&window.operations) {
        let node = &graph.tensors[unit.node as usize];
        let op = graph.op_name(node);
        if !["MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT"].contains(&op) {
            continue;
        }
        let matrix = &graph.tensors[node.sources[0] as usize];
        let is_tiled = graph.value_type(matrix).name.ends_with("_K") && node.ne[1] >= TILED_ROWS;
        let is_whole = op == "MUL_MAT" && !is_tiled;
        let operations =
            by_time.entry(*at_ns).or_insert_with(|| Operations { is_whole: true, ..Operations::default() });
        operations.is_whole &= is_whole;
        operations.observed.extend(observed);
        operations.names.push(format!("{op} of {}", matrix.name));
    }
}

/// The computations, each with its graph.
fn computed(run: &Run) -> Vec<(Graph, Step)> {
    let mut graphs: BTreeMap<u32, Graph> = BTreeMap::new();
    let mut computed = Vec::new();
    for (kind, payload) in raw_records(run).into_values() {
        match kind {
            Kind::Graph => {
                let graph = Graph::decode(&payload).unwrap();
                graphs.insert(graph.id, graph);
            }
            Kind::Step => {
                let step = Step::decode(&payload).unwrap();
                computed.push((graphs[&step.graph].clone(), step));
            }
            _ => {}
        }
    }
    computed
}
