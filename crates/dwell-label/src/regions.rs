//! The regions of a run: which tensor at which address, and the sums of the accesses to it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dwell_events::schema::region_map::RegionRow;
use dwell_events::{OpType, RegionType};
use dwell_records::names::layer_of;
use dwell_records::{Graph, TensorShape};

/// ggml's usages of buffers.
const USAGE_WEIGHTS: u8 = 1;
const USAGE_COMPUTE: u8 = 2;

/// Names of the tensors that hold keys, values and recurrent state begin with this.
const CACHE_PREFIX: &str = "cache_";

/// A region, as the accesses to it need it.
#[derive(Clone, Debug)]
pub struct RegionLabel {
    /// Row of the region map.
    pub id: u32,
    /// Whose memory it is.
    pub region_type: RegionType,
    /// Tensor that owns it.
    pub tensor: Arc<str>,
    /// Layer of that tensor.
    pub layer: Option<u16>,
}

/// All regions seen so far.
#[derive(Default)]
pub struct Regions {
    rows: Vec<RegionRow>,
    by_place: HashMap<(RegionType, String, u64), u32>,
    placed: HashSet<u32>,
}

/// Whose memory a tensor that owns its memory lies in.
pub fn region_type_of(graph: &Graph, root: &TensorShape) -> RegionType {
    if root.name.starts_with(CACHE_PREFIX) {
        return RegionType::KvCache;
    }
    match graph.buffers.get(root.buffer as usize).map(|buffer| buffer.usage) {
        Some(USAGE_WEIGHTS) => RegionType::Weight,
        Some(USAGE_COMPUTE) => RegionType::Activation,
        Some(_) => RegionType::Runtime,
        None => RegionType::Unknown,
    }
}

impl Regions {
    /// The region of a tensor at an address, made if it is new.
    pub fn label(&mut self, region_type: RegionType, tensor: &str, address: u64, size_bytes: u64) -> RegionLabel {
        let id = *self.by_place.entry((region_type, tensor.to_owned(), address)).or_insert_with(|| {
            let region_id = self.rows.len() as u32 + 1;
            self.rows.push(RegionRow {
                region_id,
                region_type,
                address,
                size_bytes,
                first_seen_ns: u64::MAX,
                last_seen_ns: 0,
                access_count: 0,
                tensor: tensor.to_owned(),
                layer: layer_of(tensor),
                bytes_read: 0,
                bytes_written: 0,
                origin: "computed",
                file_offset: None,
                freed_ns: None,
            });
            region_id
        });
        let row = &mut self.rows[id as usize - 1];
        row.size_bytes = row.size_bytes.max(size_bytes);
        RegionLabel { id, region_type, tensor: row.tensor.as_str().into(), layer: row.layer }
    }

    /// The row of a region.
    pub fn row_mut(&mut self, id: u32) -> &mut RegionRow {
        &mut self.rows[id as usize - 1]
    }

    /// Says that the content of a region is in place, whatever rules call the access that put it there.
    pub fn set_placed(&mut self, id: u32) {
        self.placed.insert(id);
    }

    /// Whether anything was stored to a region yet.
    pub fn is_written(&self, id: u32) -> bool {
        self.rows[id as usize - 1].bytes_written > 0 || self.placed.contains(&id)
    }

    /// Adds one access to the sums.
    pub fn count(&mut self, id: u32, op_type: OpType, size_bytes: u64, timestamp_ns: u64) {
        self.row_mut(id).add_access(op_type, size_bytes, timestamp_ns);
    }

    /// The region of the accesses to a region that are of another type than it is, by rules.
    pub fn split(&mut self, id: u32, region_type: RegionType) -> u32 {
        let whole = self.row_mut(id).clone();
        let part = self.label(region_type, &whole.tensor, whole.address, whole.size_bytes);
        let row = self.row_mut(part.id);
        (row.origin, row.file_offset) = (whole.origin, whole.file_offset);
        part.id
    }

    /// The regions that were accessed, all of them given back at `freed_ns`.
    pub fn into_rows(self, freed_ns: Option<u64>) -> Vec<RegionRow> {
        let mut rows: Vec<RegionRow> = self.rows.into_iter().filter(|row| row.access_count > 0).collect();
        rows.iter_mut().for_each(|row| row.freed_ns = freed_ns);
        rows
    }
}
