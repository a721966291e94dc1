use dwell_events::OpType;

use crate::reader::Access;
use crate::region_type::TypeIndex;

/// What of a row waits for its turn.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) timestamp_ns: u64,
    pub(super) address: u64,
    /// Place of the region in order of first appearance.
    pub(super) region: u32,
    pub(super) region_type: TypeIndex,
    pub(super) op_type: OpType,
}

impl Row {
    pub(super) fn new(access: &Access, region: u32) -> Self {
        Self {
            timestamp_ns: access.timestamp_ns,
            address: access.address,
            region,
            region_type: access.region_type,
            op_type: access.op_type,
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
