//! Read frequency: how much is read for what is written.

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use dwell_events::OpType;
use serde::{Deserialize, Serialize};

use super::{OfType, TypeFigures, mean, share};
use crate::Basis;
use crate::mrm_trace::RegionHistory;
use crate::reader::Access;
use crate::region_type::RegionTypeName;
use crate::step_windows::PROMPT;

/// How much is read for what is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadFrequency {
    /// How it was obtained.
    pub basis: Basis,
    /// Rows that load.
    pub loads: u64,
    /// Rows that store.
    pub stores: u64,
    /// Bytes loaded.
    pub bytes_read: Option<u64>,
    /// Bytes stored.
    pub bytes_written: Option<u64>,
    /// Bytes loaded by bytes stored; none if nothing was stored.
    pub read_write_ratio: Option<f64>,
    /// `dwell`: loads of a byte in one of its lives, mean over life bytes. `mrm-trace`: load rows by store rows, 0 where
    /// nothing was stored, mean over regions.
    pub reads_per_write: Option<f64>,
    /// Bytes loaded while decoding: in steps after a prompt.
    pub decode_bytes_read: Option<u64>,
    /// Bytes stored while decoding.
    pub decode_bytes_written: Option<u64>,
}

impl TypeFigures for ReadFrequency {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let tallied = &of_type.totals.tallied;
        tallied.counts.figures(tallied.basis, tallied.reads_per_life(of_type.observation))
    }
}

/// Rows and bytes, by direction.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AccessCounts {
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    decode_bytes_read: u64,
    decode_bytes_written: u64,
}

impl AccessCounts {
    pub(crate) fn count(&mut self, access: &Access) {
        let (rows, bytes, decode_bytes) = match access.op_type {
            OpType::Load => (&mut self.loads, &mut self.bytes_read, &mut self.decode_bytes_read),
            OpType::Store => (&mut self.stores, &mut self.bytes_written, &mut self.decode_bytes_written),
        };
        *rows += 1;
        *bytes = bytes.saturating_add(access.size_bytes);
        if access.step.is_some_and(|step| step != PROMPT) {
            *decode_bytes = decode_bytes.saturating_add(access.size_bytes);
        }
    }

    pub(crate) fn add(&mut self, other: AccessCounts) {
        self.loads = self.loads.saturating_add(other.loads);
        self.stores = self.stores.saturating_add(other.stores);
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(other.bytes_written);
        self.decode_bytes_read = self.decode_bytes_read.saturating_add(other.decode_bytes_read);
        self.decode_bytes_written = self.decode_bytes_written.saturating_add(other.decode_bytes_written);
    }

    pub(crate) fn figures(&self, basis: Basis, reads_per_life: Option<f64>) -> ReadFrequency {
        ReadFrequency {
            basis,
            loads: self.loads,
            stores: self.stores,
            bytes_read: Some(self.bytes_read),
            bytes_written: Some(self.bytes_written),
            read_write_ratio: share(self.bytes_read, self.bytes_written),
            reads_per_write: reads_per_life,
            decode_bytes_read: Some(self.decode_bytes_read),
            decode_bytes_written: Some(self.decode_bytes_written),
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::ReadFrequency),
    page: "docs/metrics/read_frequency.md",
    by_type: &[
        column(7, "reads_per_write_mean", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.read_frequency.reads_per_write),
            "loads per store"),
        column(23, "loads", Unit::None, Merging::Sum, Getter::Integer(|row| Some(row.read_frequency.loads)),
            "rows of `trace` that load"),
        column(24, "stores", Unit::None, Merging::Sum, Getter::Integer(|row| Some(row.read_frequency.stores)),
            "rows of `trace` that store"),
        column(25, "bytes_read", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.bytes_read),
            "bytes loaded, over all accesses; an access counts each of its bytes once"),
        column(26, "bytes_written", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.bytes_written),
            "bytes stored, over all accesses; an access counts each of its bytes once"),
        column(27, "read_write_ratio", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.read_frequency.read_write_ratio),
            "bytes loaded per byte stored"),
        column(57, "decode_bytes_read", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.decode_bytes_read),
            "of `bytes_read`, those in steps after a prompt"),
        column(58, "decode_bytes_written", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.decode_bytes_written),
            "of `bytes_written`, those in steps after a prompt"),
    ],
    by_region: &[
        column(16, "loads", Unit::None, Merging::Sum, Getter::Integer(|row| Some(row.read_frequency.loads)),
            "rows of `trace` that load"),
        column(17, "stores", Unit::None, Merging::Sum, Getter::Integer(|row| Some(row.read_frequency.stores)),
            "rows of `trace` that store"),
        column(18, "bytes_read", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.bytes_read),
            "bytes loaded, over all accesses; an access counts each of its bytes once"),
        column(19, "bytes_written", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.read_frequency.bytes_written),
            "bytes stored, over all accesses; an access counts each of its bytes once"),
        column(20, "read_write_ratio", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.read_frequency.read_write_ratio),
            "bytes loaded per byte stored"),
        column(21, "reads_per_write", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.read_frequency.reads_per_write),
            "loads per store"),
    ],
};

/// `mrm-trace`: read frequency of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmReadFrequency {
    /// Region.
    pub region_id: u64,
    /// Type of the region's first row.
    pub region_type: RegionTypeName,
    /// Rows that load.
    pub total_reads: u64,
    /// Rows that store.
    pub total_writes: u64,
    /// Both.
    pub total_accesses: u64,
    /// Loads by all rows.
    pub read_fraction: f64,
    /// Loads by stores; 0 if there are no stores.
    pub reads_per_write: f64,
}

pub(crate) fn mrm_regions(regions: &[RegionHistory]) -> Vec<MrmReadFrequency> {
    let frequency = |RegionHistory { rows, region_type, .. }: &RegionHistory| MrmReadFrequency {
        region_id: rows.region_id,
        region_type: region_type.clone(),
        total_reads: rows.loads,
        total_writes: rows.stores,
        total_accesses: rows.loads + rows.stores,
        read_fraction: share(rows.loads, rows.loads + rows.stores).unwrap_or(0.0),
        reads_per_write: share(rows.loads, rows.stores).unwrap_or(0.0),
    };
    regions.iter().map(frequency).collect()
}

/// Mean over the regions of a type.
pub(crate) fn mrm_mean(region_type: &RegionTypeName, regions: &[MrmReadFrequency]) -> Option<f64> {
    mean(regions.iter().filter(|region| region.region_type == *region_type).map(|region| region.reads_per_write))
}
