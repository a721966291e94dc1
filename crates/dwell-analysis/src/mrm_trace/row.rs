use dwell_events::OpType;

use crate::reader::AddressAccess;
use crate::region_type::TypeIndex;

/// What rows have in common whose region and type are the same.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Place of the region in order of first appearance.
    pub(super) region: u32,
    pub(super) region_type: TypeIndex,
    /// Place of the region among those whose rows are counted; none if another part counts them.
    pub(super) counted: Option<u32>,
}

/// An access whose region has its place.
pub(super) struct Row {
    pub(super) timestamp_ns: u64,
    pub(super) address: u64,
    pub(super) region: u32,
    pub(super) region_type: TypeIndex,
    pub(super) op_type: OpType,
}

impl Row {
    #[inline]
    pub(super) fn new(access: &AddressAccess, kind: Kind) -> Self {
        Self {
            timestamp_ns: access.timestamp_ns,
            address: access.address,
            region: kind.region,
            region_type: kind.region_type,
            op_type: access.op_type,
        }
    }
}

/// A row that waits for its turn, in 16 bytes: memory that is touched for the first time costs more than the rest of the
/// work on a row.
pub(super) struct WaitingRow {
    address: u64,
    since_base_ns: u32,
    /// Place of the kind, and in the lowest bit whether it is a store.
    kind_and_store: u32,
}

impl WaitingRow {
    #[inline]
    pub(super) fn new(access: &AddressAccess, since_base_ns: u32, kind: u32) -> Self {
        let is_store = access.op_type == OpType::Store;
        Self { address: access.address, since_base_ns, kind_and_store: kind << 1 | u32::from(is_store) }
    }

    #[inline]
    pub(super) fn row(&self, base_ns: u64, kinds: &[Kind]) -> Row {
        let kind = kinds[(self.kind_and_store >> 1) as usize];
        Row {
            timestamp_ns: base_ns + u64::from(self.since_base_ns),
            address: self.address,
            region: kind.region,
            region_type: kind.region_type,
            op_type: if self.kind_and_store & 1 == 1 { OpType::Store } else { OpType::Load },
        }
    }
}

/// What is to be done with rows.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pass {
    /// They come by time: count and follow them.
    #[default]
    CountAndFollow,
    /// They come in any order: only count them.
    Count,
    /// They were counted and come again by time: follow them.
    Follow,
}

impl Pass {
    pub(super) fn counts(self) -> bool {
        self != Pass::Follow
    }

    pub(super) fn follows(self) -> bool {
        self != Pass::Count
    }
}
