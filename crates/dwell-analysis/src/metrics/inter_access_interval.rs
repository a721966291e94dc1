//! Inter-access interval: how long memory rests between two accesses.

use std::borrow::Cow;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use serde::Serialize;

use super::{OfType, TypeFigures};
use crate::Basis;
use crate::distribution::Distribution;
use crate::exact::ExactCounts;
use crate::region_type::RegionTypeName;

/// How long memory rests between two accesses.
///
/// `dwell`: of the same bytes, weighted by them. `mrm-trace`: of the same address and type, only intervals above 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterAccessInterval {
    /// How it was obtained; `inferred` if it comes from the lives of KV blocks.
    pub basis: Basis,
    /// Median.
    pub p50_ns: Option<f64>,
    /// 90th percentile.
    pub p90_ns: Option<f64>,
    /// 99th percentile.
    pub p99_ns: Option<f64>,
    /// Mean.
    pub mean_ns: Option<f64>,
}

impl TypeFigures for InterAccessInterval {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let tallied = &of_type.totals.tallied;
        figures(&tallied.intervals_ns, tallied.interval_basis)
    }
}

pub(crate) fn figures(intervals_ns: &Distribution, basis: Basis) -> InterAccessInterval {
    InterAccessInterval {
        basis,
        p50_ns: intervals_ns.quantile(0.5),
        p90_ns: intervals_ns.quantile(0.9),
        p99_ns: intervals_ns.quantile(0.99),
        mean_ns: intervals_ns.mean(),
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::InterAccessInterval),
    page: "docs/metrics/inter_access_interval.md",
    by_type: &[
        column(15, "interval_basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.inter_access_interval.basis.name()))),
            "how the intervals were obtained"),
        column(35, "interval_p50_ns", Unit::Nanoseconds, Merging::Distribution, Getter::Number(|row| row.inter_access_interval.p50_ns),
            "time between two accesses of the same memory, median"),
        column(36, "interval_p90_ns", Unit::Nanoseconds, Merging::Distribution, Getter::Number(|row| row.inter_access_interval.p90_ns),
            "the same, 90th percentile"),
        column(37, "interval_p99_ns", Unit::Nanoseconds, Merging::Distribution, Getter::Number(|row| row.inter_access_interval.p99_ns),
            "the same, 99th percentile"),
        column(38, "interval_mean_ns", Unit::Nanoseconds, Merging::Distribution, Getter::Number(|row| row.inter_access_interval.mean_ns),
            "the same, mean"),
    ],
    by_region: &[],
};

/// `mrm-trace`: intervals of one region type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmInterval {
    /// Type of the rows.
    pub region_type: RegionTypeName,
    /// Intervals above 0.
    pub n_intervals: u64,
    /// Median, linearly interpolated and cut to a whole number, as the other quantiles.
    pub iai_p50_ns: u64,
    /// 90th percentile.
    pub iai_p90_ns: u64,
    /// 99th percentile.
    pub iai_p99_ns: u64,
    /// Mean.
    pub iai_mean_ns: f64,
}

/// The row of a type; none if it has no interval.
pub(crate) fn mrm_row(region_type: RegionTypeName, intervals_ns: &mut ExactCounts) -> Option<MrmInterval> {
    Some(MrmInterval {
        region_type,
        n_intervals: intervals_ns.count(),
        iai_p50_ns: intervals_ns.quantile(0.5)? as u64,
        iai_p90_ns: intervals_ns.quantile(0.9)? as u64,
        iai_p99_ns: intervals_ns.quantile(0.99)? as u64,
        iai_mean_ns: intervals_ns.mean()?,
    })
}
