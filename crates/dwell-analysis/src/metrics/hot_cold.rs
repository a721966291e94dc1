//! Hot and cold: how unevenly reads are spread over memory.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dwell_events::{Metric, RegionType};
use serde::Serialize;

use super::{OfType, TypeFigures};
use crate::column::{Column, Getter, Merging, MetricTable, Unit, column};
use crate::distribution::Distribution;
use crate::region_type::RegionTypeName;
use crate::requested::{ByteUses, UseTotals};
use crate::sampling::Estimate;
use crate::table::RegionName;

/// How unevenly reads are spread over the bytes that were touched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HotCold {
    /// What the shares are worth; none if nobody asked for them.
    pub estimate: Option<Estimate>,
    /// The shares.
    #[serde(flatten)]
    pub shares: HotShares,
}

/// Shares of bytes by how often they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HotShares {
    /// Smallest share of the bytes that takes half of what is read; none if nothing is read.
    pub hot_50_share: Option<f64>,
    /// The same for 90 %.
    pub hot_90_share: Option<f64>,
    /// The same for 99 %.
    pub hot_99_share: Option<f64>,
    /// Share of the bytes that were stored and never read.
    pub cold_share: Option<f64>,
}

impl HotShares {
    fn of(loads: &Distribution) -> Self {
        let mut points: Vec<(f64, u64)> = loads.points().collect();
        points.reverse();
        let all_bytes = loads.weight() as f64;
        let cold_bytes = points.last().filter(|(loads, _)| *loads == 0.0).map_or(0, |&(_, bytes)| bytes);
        Self {
            hot_50_share: hot_bytes(&points, 0.5).map(|bytes| bytes / all_bytes),
            hot_90_share: hot_bytes(&points, 0.9).map(|bytes| bytes / all_bytes),
            hot_99_share: hot_bytes(&points, 0.99).map(|bytes| bytes / all_bytes),
            cold_share: (all_bytes > 0.0).then(|| cold_bytes as f64 / all_bytes),
        }
    }
}

/// How many of the bytes that are read most often take this share of what is read. The points are loads of a byte and bytes,
/// most loads first; of bytes with the same number of loads, as many count as are needed.
fn hot_bytes(points: &[(f64, u64)], share: f64) -> Option<f64> {
    let all_read: f64 = points.iter().map(|&(loads, bytes)| loads * bytes as f64).sum();
    let (mut left, mut hot_bytes) = (share * all_read, 0.0);
    for &(loads, bytes) in points.iter().filter(|(loads, _)| *loads > 0.0) {
        let taken = (left / loads).min(bytes as f64);
        hot_bytes += taken;
        left -= taken * loads;
    }
    (all_read > 0.0).then_some(hot_bytes)
}

impl TypeFigures for HotCold {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let uses = of_type.totals.requested.uses.as_ref();
        let estimate = uses.map(|_| of_type.requested_estimate());
        let exact = uses.filter(|_| estimate == Some(Estimate::Exact));
        Self { estimate, shares: exact.map(|uses| HotShares::of(&uses.loads)).unwrap_or_default() }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::HotCold),
    page: "docs/metrics/hot_cold.md",
    by_type: &[
        column(87, "hot_cold_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.hot_cold.estimate.map(Estimate::name).map(Cow::from)),
            "what the hot and cold shares are worth: `exact` or `not_estimable` (sampled)"),
        column(88, "hot_50_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.hot_cold.shares.hot_50_share),
            "smallest share of the touched bytes that takes 50 % of the bytes read"),
        column(89, "hot_90_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.hot_cold.shares.hot_90_share),
            "the same for 90 %"),
        column(90, "hot_99_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.hot_cold.shares.hot_99_share),
            "the same for 99 %"),
        column(91, "cold_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.hot_cold.shares.cold_share),
            "share of the touched bytes that were never read"),
    ],
    by_region: &[],
};

/// The shares of one layer's memory of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotColdRow {
    /// The type.
    pub region_type: RegionTypeName,
    /// The layer; none for memory that belongs to none.
    pub layer: Option<u16>,
    /// Bytes that were touched.
    pub distinct_bytes: u64,
    /// The shares.
    #[serde(flatten)]
    pub shares: HotShares,
}

/// File of these rows.
pub const HOT_COLD_TABLE: &str = "hot_cold.csv";

/// The columns of `hot_cold.csv`, in order.
#[rustfmt::skip]
pub static HOT_COLD_COLUMNS: [Column<HotColdRow>; 7] = [
    column(0, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
        RegionType::MEANING),
    column(1, "layer", Unit::None, Merging::Same, Getter::Integer(|row| row.layer.map(u64::from)),
        "layer of the tensors, from 0; empty if they belong to none"),
    column(2, "distinct_bytes", Unit::Bytes, Merging::Distribution, Getter::Integer(|row| Some(row.distinct_bytes)),
        "distinct bytes touched"),
    column(3, "hot_50_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.shares.hot_50_share),
        "smallest share of them that takes 50 % of the bytes read"),
    column(4, "hot_90_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.shares.hot_90_share),
        "the same for 90 %"),
    column(5, "hot_99_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.shares.hot_99_share),
        "the same for 99 %"),
    column(6, "cold_share", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.shares.cold_share),
        "share of them that were never read"),
];

/// What was done to the bytes of one region.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegionUses {
    pub(crate) region_id: u64,
    pub(crate) region_type: RegionTypeName,
    pub(crate) uses: ByteUses,
}

/// One row per type and layer. Bytes that several regions of a layer touched count once.
pub(crate) fn rows_by_layer(regions: &[RegionUses], names: &BTreeMap<u64, RegionName>) -> Vec<HotColdRow> {
    let mut groups: BTreeMap<(&RegionTypeName, Option<u16>), Vec<&ByteUses>> = BTreeMap::new();
    for region in regions {
        let layer = names.get(&region.region_id).and_then(|name| name.layer);
        groups.entry((&region.region_type, layer)).or_default().push(&region.uses);
    }
    let row = |((region_type, layer), uses): ((&RegionTypeName, _), Vec<&ByteUses>)| {
        let loads = UseTotals::of(uses.into_iter()).loads;
        HotColdRow {
            region_type: region_type.clone(),
            layer,
            distinct_bytes: loads.weight(),
            shares: HotShares::of(&loads),
        }
    };
    groups.into_iter().map(row).collect()
}
