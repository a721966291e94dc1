//! Reuse distance: how much other memory is touched before the same bytes are read again.

use std::borrow::Cow;

use dwell_events::Metric;
use serde::Serialize;

use super::{OfType, TypeFigures, share};
use crate::column::{Column, Getter, Merging, MetricTable, Unit, column};
use crate::region_type::RegionTypeName;
use crate::requested::ReuseTotals;
use crate::sampling::Estimate;
use crate::totals::Totals;

/// Stands for all region types together in `reuse_distance.csv`.
pub const ALL_TYPES: &str = "all";

/// How much other memory is touched before the same bytes are read again, weighted by the bytes that are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReuseDistance {
    /// What the figures are worth; none if nobody asked for them.
    pub estimate: Option<Estimate>,
    /// Distinct other bytes that were touched since the access before, median over bytes read.
    pub p50_bytes: Option<f64>,
    /// The same, 90th percentile.
    pub p90_bytes: Option<f64>,
    /// The same, 99th percentile.
    pub p99_bytes: Option<f64>,
    /// Share of the bytes read that had not been accessed before.
    pub first_share: Option<f64>,
    /// Smallest memory with least-recently-used replacement that serves 90 % of the bytes read; none if none does.
    pub lru_90_bytes: Option<f64>,
}

impl TypeFigures for ReuseDistance {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let reuse = of_type.totals.requested.reuse.as_ref();
        let estimate = reuse.map(|_| of_type.requested_estimate());
        let Some(reuse) = reuse.filter(|_| estimate == Some(Estimate::Exact)) else {
            return Self { estimate, ..Self::default() };
        };
        let quantile = |share| reuse.distances_bytes.quantile(share);
        Self {
            estimate,
            p50_bytes: quantile(0.5),
            p90_bytes: quantile(0.9),
            p99_bytes: quantile(0.99),
            first_share: share(reuse.first_bytes, reuse.read_bytes()),
            lru_90_bytes: reuse.capacity_for(0.9),
        }
    }
}

impl ReuseTotals {
    /// The smallest memory that serves this share of the bytes read.
    fn capacity_for(&self, hit_share: f64) -> Option<f64> {
        let wanted_bytes = hit_share * self.read_bytes() as f64;
        let is_served = wanted_bytes <= self.distances_bytes.weight() as f64;
        // The byte itself needs room too.
        self.distances_bytes.value_reaching(wanted_bytes).filter(|_| is_served).map(|bytes| bytes + 1.0)
    }

    /// Bytes read that memories of 1, 2, 4 … bytes serve and those of half the size do not.
    fn served_bytes(&self) -> Vec<u64> {
        let mut served_bytes = Vec::new();
        for (_, bucket) in self.distances_bytes.numbered_buckets() {
            // Buckets end where the number of bits changes.
            let bits = (u64::BITS - bucket.least.leading_zeros()) as usize;
            served_bytes.resize(bits + 1, 0);
            served_bytes[bits] += bucket.weight;
        }
        served_bytes
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::ReuseDistance),
    page: "docs/metrics/reuse_distance.md",
    by_type: &[
        column(71, "reuse_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.reuse_distance.estimate.map(Estimate::name).map(Cow::from)),
            "what the reuse distances are worth: `exact` or `not_estimable` (sampled)"),
        column(72, "reuse_p50_bytes", Unit::Bytes, Merging::WholeTraces, Getter::Number(|row| row.reuse_distance.p50_bytes),
            "distinct other bytes touched between a read and the access of the same bytes before it, median over bytes read again"),
        column(73, "reuse_p90_bytes", Unit::Bytes, Merging::WholeTraces, Getter::Number(|row| row.reuse_distance.p90_bytes),
            "the same, 90th percentile"),
        column(74, "reuse_p99_bytes", Unit::Bytes, Merging::WholeTraces, Getter::Number(|row| row.reuse_distance.p99_bytes),
            "the same, 99th percentile"),
        column(75, "reuse_first_share", Unit::Ratio, Merging::WholeTraces, Getter::Number(|row| row.reuse_distance.first_share),
            "share of the bytes read that had not been accessed before"),
        column(76, "lru_90_bytes", Unit::Bytes, Merging::WholeTraces, Getter::Number(|row| row.reuse_distance.lru_90_bytes),
            "smallest memory with least-recently-used replacement, shared by all types, that serves 90 % of the bytes that the type reads; empty if none does"),
    ],
    by_region: &[],
};

/// What a memory of one size serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReuseRow {
    /// The type that reads, or [`ALL_TYPES`].
    pub region_type: RegionTypeName,
    /// Size of the memory, a power of two.
    pub capacity_bytes: u64,
    /// Bytes read that a memory of this size serves and one of half the size does not.
    pub read_bytes: u64,
    /// Share of the bytes read that it serves.
    pub hit_share: f64,
}

/// File of these rows.
pub const REUSE_TABLE: &str = "reuse_distance.csv";

/// The columns of `reuse_distance.csv`, in order.
#[rustfmt::skip]
pub static REUSE_COLUMNS: [Column<ReuseRow>; 4] = [
    column(0, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
        "region type that reads, or `all`"),
    column(1, "capacity_bytes", Unit::Bytes, Merging::Same, Getter::Integer(|row| Some(row.capacity_bytes)),
        "size of a memory with least-recently-used replacement, shared by all types"),
    column(2, "read_bytes", Unit::Bytes, Merging::WholeTraces, Getter::Integer(|row| Some(row.read_bytes)),
        "bytes read with a reuse distance below this size and not below half of it"),
    column(3, "hit_share", Unit::Ratio, Merging::WholeTraces, Getter::Number(|row| Some(row.hit_share)),
        "share of the bytes read that the memory serves"),
];

/// One row per type and power of two, up to the size from which on nothing changes; none if accesses were sampled.
pub(crate) fn rows(totals: &Totals) -> Vec<ReuseRow> {
    let reuse = |of_type: &crate::totals::TypeTotals| of_type.requested.reuse.clone();
    let by_type = totals.types.iter().filter_map(|of_type| Some((of_type.region_type().name(), reuse(of_type)?)));
    let mut by_type: Vec<(&str, ReuseTotals)> = by_type.collect();
    if by_type.is_empty() || totals.observation.samples.is_sampled() {
        return Vec::new();
    }
    let mut all = ReuseTotals::default();
    by_type.iter().for_each(|(_, reuse)| all.merge(reuse));
    by_type.push((ALL_TYPES, all));
    let sizes = by_type.iter().map(|(_, reuse)| reuse.served_bytes().len()).max().unwrap_or(0);
    by_type.iter().flat_map(|(name, reuse)| rows_of_type(name, reuse, sizes)).collect()
}

fn rows_of_type(name: &str, reuse: &ReuseTotals, sizes: usize) -> Vec<ReuseRow> {
    let mut served_bytes = reuse.served_bytes();
    served_bytes.resize(sizes, 0);
    let (region_type, all_bytes, mut so_far) = (RegionTypeName::from(name), reuse.read_bytes(), 0);
    let numbered = served_bytes.into_iter().enumerate();
    let row = |(bits, read_bytes): (usize, u64)| {
        so_far += read_bytes;
        Some(ReuseRow {
            region_type: region_type.clone(),
            capacity_bytes: 1u64.checked_shl(bits as u32)?,
            read_bytes,
            hit_share: share(so_far, all_bytes)?,
        })
    };
    numbered.filter_map(row).collect()
}
