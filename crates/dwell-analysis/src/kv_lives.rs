//! Lives of KV blocks, taken from `kv_block_lifecycle` instead of being followed byte by byte.
//!
//! The bytes of one block of a transposed V cache are spread over as many places as it has values, so following
//! them as ranges would take a range for each value.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::Basis;
use crate::distribution::Distribution;
use crate::metrics::retention::{FinishedLife, LifeTally};
use crate::metrics::write_once::StoredBytes;
use crate::reader::BlockLife;

/// Layer and whether it is a key; none where the table does not say.
pub(crate) type TensorKey = Option<(u64, bool)>;

/// The lives of the blocks of one tensor of the cache; those of several parts of a trace add up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KvTensor {
    pub(crate) lives: LifeTally,
    /// Mean time between the reads of a block, once for each of its reads and bytes.
    pub(crate) intervals_ns: Distribution,
    /// Where the tensor's first block is, whatever part it is in.
    pub(crate) lowest_address: u64,
    pub(crate) basis: Basis,
    /// Bytes of the blocks, by how often they were written.
    pub(crate) stored: StoredBytes,
}

impl KvTensor {
    pub(crate) fn merge(&mut self, other: &KvTensor) {
        self.lives.merge(&other.lives);
        self.intervals_ns.merge(&other.intervals_ns);
        self.lowest_address = self.lowest_address.min(other.lowest_address);
        self.basis = self.basis.max(other.basis);
        self.stored.add(other.stored);
    }
}

/// A tensor whose blocks still come.
struct GrowingTensor {
    tensor: KvTensor,
    /// Size of the block at an address, and whether it was written more than once.
    blocks: FxHashMap<u64, (u64, bool)>,
}

impl GrowingTensor {
    fn new(life: &BlockLife) -> Self {
        let tensor = KvTensor {
            lives: LifeTally::default(),
            intervals_ns: Distribution::default(),
            lowest_address: life.address,
            basis: life.basis,
            stored: StoredBytes::default(),
        };
        Self { tensor, blocks: FxHashMap::default() }
    }

    fn add(&mut self, life: &BlockLife, finished: &FinishedLife, step_ns: f64) {
        self.tensor.lives.add(finished, step_ns, false);
        if let Some(needed) = finished.needed {
            self.tensor.intervals_ns.add_by_sum(needed.ns, life.reads, life.bytes);
        }
        let was_known = self.blocks.contains_key(&life.address);
        let (bytes, is_rewritten) = self.blocks.entry(life.address).or_default();
        *bytes = life.bytes.max(*bytes);
        *is_rewritten |= was_known;
    }

    fn concluded(self) -> KvTensor {
        let mut stored = StoredBytes::default();
        for (bytes, is_rewritten) in self.blocks.into_values() {
            let more_than_once = if is_rewritten { bytes } else { 0 };
            stored.add(StoredBytes { seen: bytes, more_than_once, inferred: 0 });
        }
        KvTensor { stored, ..self.tensor }
    }
}

/// The blocks of the whole cache.
#[derive(Default)]
pub(crate) struct KvLives {
    /// In the order of their keys, so that sums do not depend on a hash.
    tensors: BTreeMap<TensorKey, GrowingTensor>,
}

impl KvLives {
    /// Takes note of a life; every part of a trace takes note of all of them.
    fn note(&mut self, life: &BlockLife) -> &mut GrowingTensor {
        let growing = self.tensors.entry(life.tensor).or_insert_with(|| GrowingTensor::new(life));
        growing.tensor.lowest_address = growing.tensor.lowest_address.min(life.address);
        growing.tensor.basis = growing.tensor.basis.max(life.basis);
        growing
    }

    /// Takes a life whose block is in another part.
    pub(crate) fn pass_over(&mut self, life: &BlockLife) {
        self.note(life);
    }

    pub(crate) fn push(&mut self, life: &BlockLife, finished: &FinishedLife, step_ns: f64) {
        self.note(life).add(life, finished, step_ns);
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let blocks = self.tensors.values().map(|growing| growing.blocks.capacity());
        blocks.map(|blocks| blocks * 8 / 7 * (size_of::<(u64, (u64, bool))>() + 1)).sum()
    }

    /// The tensors, in the order of their keys.
    pub(crate) fn conclude(self) -> BTreeMap<TensorKey, KvTensor> {
        self.tensors.into_iter().map(|(key, growing)| (key, growing.concluded())).collect()
    }
}
