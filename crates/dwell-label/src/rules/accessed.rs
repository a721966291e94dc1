use dwell_events::schema::trace::Row;
use dwell_events::{OpType, RegionType};

/// What an access touched and when: all of it that labels depend on, once the rule that matches its texts is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// When it was made.
    pub timestamp_ns: u64,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Load or store.
    pub op_type: OpType,
    /// The label that it came with.
    pub region_type: RegionType,
    /// The region that it came with; 0 if it has none.
    pub region_id: u32,
}

impl<Text> From<&Row<Text>> for Accessed {
    #[inline]
    fn from(row: &Row<Text>) -> Self {
        Self {
            timestamp_ns: row.timestamp_ns,
            address: row.address,
            size_bytes: row.size_bytes,
            op_type: row.op_type,
            region_type: row.region_type,
            region_id: row.region_id,
        }
    }
}

impl Accessed {
    /// Address after the last byte; an access without a size still touches one byte.
    #[inline]
    pub(crate) fn end_address(&self) -> u64 {
        self.address.saturating_add(self.size_bytes.max(1))
    }
}
