//! Working set: how much memory was touched, over the trace and in a step.

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use dwell_events::PAGE_SHIFT;
use serde::Serialize;

use super::{OfType, TypeFigures, mean};
use crate::Basis;
use crate::mrm_trace::RegionHistory;
use crate::region_type::RegionTypeName;
use crate::statistics::median;

/// How much memory was touched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkingSet {
    /// How it was obtained.
    pub basis: Basis,
    /// `dwell`: distinct bytes touched. `mrm-trace`: 4096 for each page of each region.
    pub distinct_bytes: u64,
    /// `dwell`: distinct pages of 4 KiB. `mrm-trace`: a page counts once for each region that touches it.
    pub distinct_pages: u64,
    /// Distinct bytes touched in a step, median over the steps that touched any.
    pub step_median_bytes: Option<f64>,
    /// The same, largest.
    pub step_max_bytes: Option<u64>,
}

impl TypeFigures for WorkingSet {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let totals = of_type.totals;
        let mut step_bytes: Vec<f64> = totals.step_bytes.iter().map(|&bytes| bytes as f64).collect();
        Self {
            basis: totals.tallied.basis,
            distinct_bytes: totals.distinct_bytes,
            distinct_pages: totals.distinct_pages,
            step_median_bytes: median(&mut step_bytes),
            step_max_bytes: totals.step_bytes.iter().copied().max(),
        }
    }
}

/// Bytes of a unit that mrm-trace calls megabyte.
const BYTES_PER_MB: f64 = 1_048_576.0;

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::WorkingSet),
    page: "docs/metrics/working_set.md",
    by_type: &[
        column(8, "working_set_mb_total", Unit::Mebibytes, Merging::Sum, Getter::Number(|row| Some(row.working_set.distinct_bytes as f64 / BYTES_PER_MB)),
            "distinct memory touched"),
        column(9, "unique_pages_total", Unit::Pages, Merging::Sum, Getter::Integer(|row| Some(row.working_set.distinct_pages)),
            "distinct pages touched"),
        column(28, "distinct_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| Some(row.working_set.distinct_bytes)),
            "distinct bytes touched"),
        column(29, "step_working_set_median_bytes", Unit::Bytes, Merging::Steps, Getter::Number(|row| row.working_set.step_median_bytes),
            "distinct bytes touched in a step, median over steps"),
        column(30, "step_working_set_max_bytes", Unit::Bytes, Merging::Steps, Getter::Integer(|row| row.working_set.step_max_bytes),
            "distinct bytes touched in a step, most of any step"),
    ],
    by_region: &[
        column(22, "distinct_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| Some(row.working_set.distinct_bytes)),
            "distinct bytes touched"),
        column(23, "distinct_pages", Unit::Pages, Merging::Sum, Getter::Integer(|row| Some(row.working_set.distinct_pages)),
            "distinct pages touched"),
    ],
};

/// `mrm-trace`: working set of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmWorkingSetRegion {
    /// Region.
    pub region_id: u64,
    /// Distinct pages.
    pub unique_pages: u64,
    /// Type of the region's first row.
    pub region_type: RegionTypeName,
    /// 4096 for each.
    pub working_set_bytes: u64,
}

/// `mrm-trace`: working set of the regions of one type, added up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmWorkingSetSummary {
    /// Type of the regions.
    pub region_type: RegionTypeName,
    /// Regions of the type.
    pub n_regions: u64,
    /// Sum of the regions' pages.
    pub total_pages: u64,
    /// 4096 for each.
    pub total_bytes: u64,
    /// Mean of the regions' pages.
    pub mean_pages_per_region: f64,
    /// Most pages in one region.
    pub max_pages_per_region: u64,
}

pub(crate) fn mrm_regions(regions: &[RegionHistory]) -> Vec<MrmWorkingSetRegion> {
    let working_set = |RegionHistory { rows, addresses, region_type, .. }: &RegionHistory| MrmWorkingSetRegion {
        region_id: rows.region_id,
        region_type: region_type.clone(),
        unique_pages: addresses.pages,
        working_set_bytes: addresses.pages << PAGE_SHIFT,
    };
    regions.iter().map(working_set).collect()
}

/// One row per type in `types`, which are sorted and all in use.
pub(crate) fn mrm_summary(types: &[RegionTypeName], regions: &[MrmWorkingSetRegion]) -> Vec<MrmWorkingSetSummary> {
    let summary = |region_type: &RegionTypeName| {
        let of_type = || regions.iter().filter(|region| region.region_type == *region_type);
        let total_pages: u64 = of_type().map(|region| region.unique_pages).sum();
        Some(MrmWorkingSetSummary {
            region_type: region_type.clone(),
            n_regions: of_type().count() as u64,
            total_pages,
            total_bytes: total_pages << PAGE_SHIFT,
            mean_pages_per_region: mean(of_type().map(|region| region.unique_pages as f64))?,
            max_pages_per_region: of_type().map(|region| region.unique_pages).max()?,
        })
    };
    types.iter().filter_map(summary).collect()
}
