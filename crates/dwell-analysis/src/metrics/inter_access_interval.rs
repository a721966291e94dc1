//! Inter-access interval: how long memory rests between two accesses.

use serde::Serialize;

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

pub(crate) fn figures(intervals_ns: &Distribution, basis: Basis) -> InterAccessInterval {
    InterAccessInterval {
        basis,
        p50_ns: intervals_ns.quantile(0.5),
        p90_ns: intervals_ns.quantile(0.9),
        p99_ns: intervals_ns.quantile(0.99),
        mean_ns: intervals_ns.mean(),
    }
}

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
