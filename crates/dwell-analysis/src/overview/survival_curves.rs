//! The survival curves of the region types.

use super::{Endpoint, SurvivalCurve};
use crate::metrics::NS_PER_S;
use crate::survival::Survival;
use crate::totals::Totals;

/// Points of a curve at most.
const MOST_POINTS: usize = 256;

/// Two curves of each type whose lives were followed exactly.
pub(crate) fn survival_curves(totals: &Totals) -> Vec<SurvivalCurve> {
    let curves = totals.exact_types().flat_map(|of_type| {
        let lives = &of_type.tallied.lives;
        let ends = [(Endpoint::Retention, lives.needed_ns()), (Endpoint::Residency, lives.resident_ns())];
        ends.map(|(endpoint, survival)| curve(of_type.region_type().name(), endpoint, survival))
    });
    curves.flatten().collect()
}

fn curve(region_type: &str, endpoint: Endpoint, survival: &Survival) -> Option<SurvivalCurve> {
    if survival.is_empty() {
        return None;
    }
    let points = survival.curve();
    let stride = points.len().div_ceil(MOST_POINTS);
    // The last point stays, whatever the stride: nothing was seen to last longer.
    let kept = || points.iter().rev().step_by(stride).rev();
    let (life_bytes, open_bytes) = survival.weights();
    Some(SurvivalCurve {
        region_type: region_type.to_owned(),
        endpoint,
        life_bytes,
        open_bytes,
        at_s: kept().map(|point| point.at / NS_PER_S).collect(),
        surviving: kept().map(|point| point.surviving).collect(),
        surviving_low: kept().map(|point| point.surviving_low).collect(),
        surviving_high: kept().map(|point| point.surviving_high).collect(),
    })
}
