//! Locality: how far apart consecutive accesses are.

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use dwell_events::PAGE_SHIFT;
use serde::{Deserialize, Serialize};

use super::{OfType, TypeFigures, TypeTally, mean, share};
use crate::Basis;
use crate::distribution::Distribution;
use crate::mrm_trace::RegionHistory;
use crate::reader::Access;
use crate::region_type::RegionTypeName;

/// How far apart consecutive accesses are. `dwell`: of a region type. `mrm-trace`: of a region, mean over regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Locality {
    /// How it was obtained.
    pub basis: Basis,
    /// Share of the bytes that were accessed from where the access before ended.
    pub sequential_share: Option<f64>,
    /// Share of the accesses that begin in the page in which the access before ended.
    pub same_page_share: Option<f64>,
    /// Distance between the first bytes of consecutive accesses, mean.
    pub stride_mean_bytes: Option<f64>,
    /// The same, median.
    pub stride_median_bytes: Option<f64>,
}

/// Follows the accesses of one region type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LocalityTally {
    /// First byte of the access before and one past its last.
    before: Option<(u64, u64)>,
    followed_bytes: u64,
    sequential_bytes: u64,
    followed_accesses: u64,
    same_page_accesses: u64,
    strides_bytes: Distribution,
}

impl TypeTally for LocalityTally {
    fn follow(&mut self, access: &Access) {
        let range = (access.address, access.end());
        let Some((before_start, before_end)) = self.before.replace(range) else { return };
        self.followed_accesses += 1;
        self.followed_bytes = self.followed_bytes.saturating_add(access.size_bytes);
        if access.address == before_end {
            self.sequential_bytes = self.sequential_bytes.saturating_add(access.size_bytes);
        }
        let before_last = before_end.saturating_sub(1).max(before_start);
        if access.address >> PAGE_SHIFT == before_last >> PAGE_SHIFT {
            self.same_page_accesses += 1;
        }
        self.strides_bytes.add(access.address.abs_diff(before_start), 1);
    }

    /// From the last row of a run to the first of another there is no stride.
    fn merge(&mut self, other: &Self) {
        self.followed_bytes = self.followed_bytes.saturating_add(other.followed_bytes);
        self.sequential_bytes = self.sequential_bytes.saturating_add(other.sequential_bytes);
        self.followed_accesses = self.followed_accesses.saturating_add(other.followed_accesses);
        self.same_page_accesses = self.same_page_accesses.saturating_add(other.same_page_accesses);
        self.strides_bytes.merge(&other.strides_bytes);
    }
}

impl TypeFigures for Locality {
    type Tally = LocalityTally;

    fn of(of_type: &OfType<'_>, tally: &LocalityTally) -> Self {
        Self {
            basis: of_type.totals.tallied.basis,
            sequential_share: share(tally.sequential_bytes, tally.followed_bytes),
            same_page_share: share(tally.same_page_accesses, tally.followed_accesses),
            stride_mean_bytes: tally.strides_bytes.mean(),
            stride_median_bytes: tally.strides_bytes.quantile(0.5),
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Locality),
    page: "docs/metrics/locality.md",
    by_type: &[
        column(31, "sequential_share", Unit::Ratio, Merging::WithinParts, Getter::Number(|row| row.locality.sequential_share),
            "share of the accesses that begin where the one before ended"),
        column(32, "same_page_share", Unit::Ratio, Merging::WithinParts, Getter::Number(|row| row.locality.same_page_share),
            "share of the accesses in the page of the one before"),
        column(33, "stride_mean_bytes", Unit::Bytes, Merging::WithinParts, Getter::Number(|row| row.locality.stride_mean_bytes),
            "distance between consecutive accesses, mean"),
        column(34, "stride_median_bytes", Unit::Bytes, Merging::WithinParts, Getter::Number(|row| row.locality.stride_median_bytes),
            "distance between consecutive accesses, median"),
    ],
    by_region: &[],
};

/// `mrm-trace`: locality of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmLocalityRegion {
    /// Region.
    pub region_id: u64,
    /// Type of the region's earliest row.
    pub region_type: RegionTypeName,
    /// Rows.
    pub n_accesses: u64,
    /// Mean distance of consecutive addresses; 0 for a single row, as below.
    pub mean_stride_bytes: f64,
    /// Median distance of consecutive addresses.
    pub median_stride_bytes: f64,
    /// Share of consecutive rows that are on one page.
    pub same_page_fraction: f64,
}

/// `mrm-trace`: locality of the regions of one type, unweighted means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmLocalitySummary {
    /// Type of the regions.
    pub region_type: RegionTypeName,
    /// Mean of the means.
    pub mean_stride_bytes: f64,
    /// Mean of the medians.
    pub median_stride_bytes: f64,
    /// Mean of the shares.
    pub same_page_fraction: f64,
}

pub(crate) fn mrm_regions(regions: &[RegionHistory]) -> Vec<MrmLocalityRegion> {
    let locality = |RegionHistory { rows, earliest_type, .. }: &RegionHistory| MrmLocalityRegion {
        region_id: rows.region_id,
        region_type: earliest_type.clone(),
        n_accesses: rows.loads + rows.stores,
        mean_stride_bytes: rows.stride_mean_bytes,
        median_stride_bytes: rows.stride_median_bytes,
        same_page_fraction: share(rows.same_page_rows, rows.strides).unwrap_or(0.0),
    };
    regions.iter().map(locality).collect()
}

/// One row per type in `types` that some region has, in that order.
pub(crate) fn mrm_summary(types: &[RegionTypeName], regions: &[MrmLocalityRegion]) -> Vec<MrmLocalitySummary> {
    let summary = |region_type: &RegionTypeName| {
        let mean_of = |figure: fn(&MrmLocalityRegion) -> f64| {
            mean(regions.iter().filter(|region| region.region_type == *region_type).map(figure))
        };
        Some(MrmLocalitySummary {
            region_type: region_type.clone(),
            mean_stride_bytes: mean_of(|region| region.mean_stride_bytes)?,
            median_stride_bytes: mean_of(|region| region.median_stride_bytes)?,
            same_page_fraction: mean_of(|region| region.same_page_fraction)?,
        })
    };
    types.iter().filter_map(summary).collect()
}
