//! What the trace says that computations touched, and what is known of them from the raw streams.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use dwell_events::engine::EngineEvent;
use dwell_events::schema::Table;
use dwell_events::schema::trace::CLEAR_SYMBOL;
use dwell_records::{Graph, Kind};
use dwell_store::RawReader;

use crate::bytes::{ByteSet, Touched};
use crate::common::{self, Run};

/// The step of each computation, and the compute buffers, from the raw streams.
pub fn computations(run: &Run) -> (Vec<u32>, Vec<(u64, u64)>) {
    let (mut steps, mut current) = (Vec::new(), 0);
    let mut compute_buffers = BTreeMap::new();
    for (kind, payload) in raw_records(run).into_values() {
        match kind {
            Kind::Step => steps.push(current),
            Kind::Engine => {
                if let EngineEvent::BatchBegins { step, .. } = serde_json::from_slice(&payload).unwrap() {
                    current = step;
                }
            }
            Kind::Graph => {
                for buffer in Graph::decode(&payload).unwrap().buffers.iter().filter(|buffer| buffer.usage == 2) {
                    compute_buffers.insert(buffer.base, buffer.base + buffer.size_bytes);
                }
            }
            _ => {}
        }
    }
    (steps, compute_buffers.into_iter().collect())
}

/// Kind and payload of the worker's records by their numbers, which both of its streams share.
pub fn raw_records(run: &Run) -> BTreeMap<u64, (Kind, Vec<u8>)> {
    let mut records = BTreeMap::new();
    for stream in ["raw/engine.arrows", "raw/tensor_ops.arrows"] {
        for batch in RawReader::open(&run.dir.join(stream)).unwrap().map(Result::unwrap) {
            let sequences = batch.column(0).as_primitive::<UInt64Type>();
            let kinds = batch.column(1).as_primitive::<UInt16Type>().values().iter();
            let payloads = batch.column(3).as_binary::<i32>().iter().flatten();
            for ((sequence, kind), payload) in sequences.values().iter().zip(kinds).zip(payloads) {
                records.insert(*sequence, (Kind::from_number(*kind).unwrap(), payload.to_vec()));
            }
        }
    }
    records
}

/// What the trace says that was touched.
#[derive(Default)]
pub struct Claimed {
    /// By the computations of each step.
    pub in_graphs: BTreeMap<u32, Touched>,
    /// Before and after them: inputs that were stored, results that were loaded.
    pub around_graphs: BTreeMap<u32, Touched>,
    /// By setting whole buffers to one value.
    pub cleared: ByteSet,
}

/// What the `symbol` column calls accesses between graphs.
const BETWEEN_GRAPHS: [&str; 2] = ["set_input", "ggml_backend_tensor_get"];

pub fn claimed(run: &Run) -> Claimed {
    let mut claimed = Claimed::default();
    for access in run.accesses() {
        if access.op == CLEAR_SYMBOL {
            claimed.cleared.insert(access.address, access.size_bytes);
        }
        let Some(step) = access.step else { continue };
        let is_between = BETWEEN_GRAPHS.contains(&&*access.op);
        let by_step = if is_between { &mut claimed.around_graphs } else { &mut claimed.in_graphs };
        let touched = by_step.entry(step).or_default();
        touched.add(access.is_store, access.address, access.size_bytes);
    }
    claimed
}

pub fn regions(run: &Run, region_type: &str) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    for batch in run.batches(Table::RegionMap) {
        for row in 0..batch.num_rows() {
            if common::text(&batch, "region_type", row) == region_type {
                let address = common::wide(&batch, "address", row);
                ranges.push((address, address + common::wide(&batch, "size_bytes", row)));
            }
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}
