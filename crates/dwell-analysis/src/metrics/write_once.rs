//! Write-once ratio: how much of what was stored was stored exactly once.

use std::borrow::Cow;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use serde::{Deserialize, Serialize};

use super::{OfType, TypeFigures, mean, share};
use crate::Basis;
use crate::mrm_trace::RegionHistory;
use crate::region_type::RegionTypeName;
use crate::sampling::Estimate;

/// How much of what was stored was stored exactly once.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WriteOnce {
    /// How it was obtained; `inferred` if bytes were read that nobody was seen to store.
    pub basis: Basis,
    /// `dwell`: share of the stored bytes. `mrm-trace`: mean over regions of the share of stored addresses.
    pub ratio: Option<f64>,
    /// Distinct bytes stored. Bytes that were only read count as stored once, before the trace.
    pub stored_bytes: Option<u64>,
    /// Of these, bytes stored exactly once.
    pub stored_once_bytes: Option<u64>,
    /// What the ratio is worth; none by the definitions of mrm-trace.
    pub estimate: Option<Estimate>,
    /// The ratio is at least this; the ratio itself if it is exact.
    pub low: Option<f64>,
    /// The ratio is at most this.
    pub high: Option<f64>,
}

impl TypeFigures for WriteOnce {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        of_type.totals.tallied.write_once(of_type.observation)
    }
}

/// Distinct bytes by how often they were stored.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredBytes {
    /// Seen stored at least once.
    pub(crate) seen: u64,
    /// Of these, seen stored more than once.
    pub(crate) more_than_once: u64,
    /// Read, and never seen stored.
    pub(crate) inferred: u64,
}

impl StoredBytes {
    pub(crate) fn add(&mut self, other: StoredBytes) {
        self.seen = self.seen.saturating_add(other.seen);
        self.more_than_once = self.more_than_once.saturating_add(other.more_than_once);
        self.inferred = self.inferred.saturating_add(other.inferred);
    }

    pub(crate) fn figures(&self, rows_basis: Basis) -> WriteOnce {
        let stored = self.seen.saturating_add(self.inferred);
        let once = stored.saturating_sub(self.more_than_once);
        let ratio = share(once, stored);
        WriteOnce {
            basis: if self.inferred > 0 { Basis::Inferred } else { rows_basis },
            ratio,
            stored_bytes: Some(stored),
            stored_once_bytes: Some(once),
            estimate: Some(Estimate::Exact),
            low: ratio,
            high: ratio,
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::WriteOnce),
    page: "docs/metrics/write_once.md",
    by_type: &[
        column(6, "write_once_ratio_mean", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.write_once.ratio),
            "share of the stored bytes that were stored exactly once"),
        column(14, "write_once_basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.write_once.basis.name()))),
            "how the write-once ratio was obtained"),
        column(44, "write_once_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.write_once.estimate.map(Estimate::name).map(Cow::from)),
            "what the write-once ratio is worth if accesses were sampled"),
        column(45, "write_once_low", Unit::Ratio, Merging::WidestBounds, Getter::Number(|row| row.write_once.low),
            "least that the write-once ratio can be if accesses were sampled"),
        column(46, "write_once_high", Unit::Ratio, Merging::WidestBounds, Getter::Number(|row| row.write_once.high),
            "most that the write-once ratio can be if accesses were sampled"),
    ],
    by_region: &[
        column(14, "write_once_ratio", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.write_once.ratio),
            "share of the stored bytes that were stored exactly once"),
        column(15, "write_once_basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.write_once.basis.name()))),
            "how the write-once ratio was obtained"),
    ],
};

/// `mrm-trace`: write-once ratio of one region that was stored to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmWriteOnce {
    /// Region.
    pub region_id: u64,
    /// Type of the region's first row.
    pub region_type: RegionTypeName,
    /// Distinct addresses of stores.
    pub n_written_addresses: u64,
    /// Of these, addresses of exactly one store.
    pub n_write_once_addresses: u64,
    /// One by the other.
    pub write_once_ratio: f64,
}

pub(crate) fn mrm_regions(regions: &[RegionHistory]) -> Vec<MrmWriteOnce> {
    let write_once = |RegionHistory { rows, addresses, region_type, .. }: &RegionHistory| {
        Some(MrmWriteOnce {
            region_id: rows.region_id,
            region_type: region_type.clone(),
            n_written_addresses: addresses.stored,
            n_write_once_addresses: addresses.stored_once,
            write_once_ratio: share(addresses.stored_once, addresses.stored)?,
        })
    };
    regions.iter().filter_map(write_once).collect()
}

/// Mean over the regions of a type; none if none of them was stored to.
pub(crate) fn mrm_mean(region_type: &RegionTypeName, regions: &[MrmWriteOnce]) -> Option<f64> {
    mean(regions.iter().filter(|region| region.region_type == *region_type).map(|region| region.write_once_ratio))
}
