//! Lives of KV blocks, taken from `kv_block_lifecycle` instead of being followed byte by byte.
//!
//! The bytes of one block of a transposed V cache are spread over as many places as it has values, so following
//! them as ranges would take a range for each value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashMap;

use crate::Basis;
use crate::distribution::Distribution;
use crate::metrics::retention::{FinishedLife, LifeTally};
use crate::metrics::write_once::StoredBytes;
use crate::reader::BlockLife;

/// Layer and whether it is a key; none where the table does not say.
type TensorKey = Option<(u64, bool)>;

/// The blocks of one tensor of the cache.
#[derive(Default)]
pub(crate) struct KvTensor {
    pub(crate) lives: LifeTally,
    /// Mean time between the reads of a block, once for each of its reads and bytes.
    pub(crate) intervals_ns: Distribution,
    /// Where the tensor's first block is.
    pub(crate) lowest_address: u64,
    pub(crate) basis: Basis,
    /// Size of the block at an address, and whether it was written more than once.
    blocks: FxHashMap<u64, (u64, bool)>,
}

impl KvTensor {
    fn add(&mut self, life: &BlockLife, finished: &FinishedLife, step_ns: f64) {
        self.lives.add(finished, step_ns, false);
        if let Some(needed) = finished.needed {
            self.intervals_ns.add_by_sum(needed.ns, life.reads, life.bytes);
        }
        self.lowest_address = self.lowest_address.min(life.address);
        self.basis = self.basis.max(life.basis);
        let was_known = self.blocks.contains_key(&life.address);
        let (bytes, is_rewritten) = self.blocks.entry(life.address).or_default();
        *bytes = life.bytes.max(*bytes);
        *is_rewritten |= was_known;
    }

    fn merge(&mut self, other: KvTensor) {
        self.lives.merge(&other.lives);
        self.intervals_ns.merge(&other.intervals_ns);
        self.lowest_address = self.lowest_address.min(other.lowest_address);
        self.basis = self.basis.max(other.basis);
        for (address, (bytes, is_rewritten)) in other.blocks {
            let was_known = self.blocks.contains_key(&address);
            let block = self.blocks.entry(address).or_default();
            *block = (bytes.max(block.0), is_rewritten || block.1 || was_known);
        }
    }

    /// Bytes of the blocks, by how often they were written.
    pub(crate) fn stored_bytes(&self) -> StoredBytes {
        let mut stored = StoredBytes::default();
        for &(bytes, is_rewritten) in self.blocks.values() {
            stored.seen = stored.seen.saturating_add(bytes);
            if is_rewritten {
                stored.more_than_once = stored.more_than_once.saturating_add(bytes);
            }
        }
        stored
    }
}

/// The blocks of the whole cache.
#[derive(Default)]
pub(crate) struct KvLives {
    /// In the order of their keys, so that sums do not depend on a hash.
    tensors: BTreeMap<TensorKey, KvTensor>,
}

impl KvLives {
    pub(crate) fn push(&mut self, life: &BlockLife, finished: &FinishedLife, step_ns: f64) {
        let first = || KvTensor { lowest_address: u64::MAX, ..KvTensor::default() };
        self.tensors.entry(life.tensor).or_insert_with(first).add(life, finished, step_ns);
    }

    /// Adds the blocks of another part of the run.
    pub(crate) fn merge(&mut self, other: KvLives) {
        for (key, tensor) in other.tensors {
            match self.tensors.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(tensor)),
                Entry::Occupied(mut entry) => entry.get_mut().merge(tensor),
            }
        }
    }

    pub(crate) fn tensors(&self) -> impl Iterator<Item = &KvTensor> {
        self.tensors.values()
    }
}
