//! Endurance: how often memory is stored to.

use std::borrow::Cow;

use dwell_events::Metric;
use serde::Serialize;

use super::{OfType, TypeFigures};
use crate::column::{Getter, Merging, MetricTable, Unit, column};
use crate::distribution::Distribution;
use crate::sampling::Estimate;

/// How often bytes were stored to, over the bytes that were touched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Endurance {
    /// What the figures are worth; none if nobody asked for them.
    pub estimate: Option<Estimate>,
    /// Stores of a byte.
    pub stores_per_byte: StoreRates,
    /// The same in a second of the recording.
    pub stores_per_byte_s: StoreRates,
    /// The same in a second at the speed that suitability is rated at; none if the trace has no steps.
    pub stores_per_byte_s_at_pace: StoreRates,
}

/// Stores of a byte, in all or in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreRates {
    /// Mean over bytes: what a memory that spreads its stores evenly has to bear.
    pub mean: Option<f64>,
    /// 99 % of the bytes are stored to no more often.
    pub p99: Option<f64>,
    /// The byte that is stored to most often.
    pub max: Option<f64>,
}

impl StoreRates {
    fn of(stores: &Distribution) -> Self {
        Self { mean: stores.mean(), p99: stores.quantile(0.99), max: stores.largest_seen().map(|stores| stores as f64) }
    }

    /// None within no time.
    fn within(self, duration_s: f64) -> Self {
        let rate = |stores: Option<f64>| stores.filter(|_| duration_s > 0.0).map(|stores| stores / duration_s);
        Self { mean: rate(self.mean), p99: rate(self.p99), max: rate(self.max) }
    }
}

impl TypeFigures for Endurance {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let uses = of_type.totals.requested.uses.as_ref();
        let estimate = uses.map(|_| of_type.requested_estimate());
        let Some(uses) = uses.filter(|_| estimate == Some(Estimate::Exact)) else {
            return Self { estimate, ..Self::default() };
        };
        let (stores, observation) = (StoreRates::of(&uses.stores), of_type.observation);
        Self {
            estimate,
            stores_per_byte: stores,
            stores_per_byte_s: stores.within(observation.window_s),
            stores_per_byte_s_at_pace: stores.within(if observation.has_steps() { observation.paced_s } else { 0.0 }),
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Endurance),
    page: "docs/metrics/endurance.md",
    by_type: &[
        column(101, "endurance_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.endurance.estimate.map(Estimate::name).map(Cow::from)),
            "what the stores per byte are worth: `exact` or `not_estimable` (sampled)"),
        column(102, "stores_per_byte_mean", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.endurance.stores_per_byte.mean),
            "stores of a byte, mean over the bytes that were touched"),
        column(103, "stores_per_byte_p99", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.endurance.stores_per_byte.p99),
            "the same, 99th percentile over bytes"),
        column(104, "stores_per_byte_max", Unit::Ratio, Merging::Distribution, Getter::Number(|row| row.endurance.stores_per_byte.max),
            "the same, most of any byte"),
        column(105, "stores_per_byte_s_mean", Unit::PerSecond, Merging::Derived, Getter::Number(|row| row.endurance.stores_per_byte_s.mean),
            "stores of a byte in a second of the recording, mean over bytes"),
        column(106, "stores_per_byte_s_p99", Unit::PerSecond, Merging::Derived, Getter::Number(|row| row.endurance.stores_per_byte_s.p99),
            "the same, 99th percentile over bytes"),
        column(107, "stores_per_byte_s_max", Unit::PerSecond, Merging::Derived, Getter::Number(|row| row.endurance.stores_per_byte_s.max),
            "the same, most of any byte"),
        column(108, "stores_per_byte_s_at_pace_mean", Unit::PerSecond, Merging::WithinParts, Getter::Number(|row| row.endurance.stores_per_byte_s_at_pace.mean),
            "stores of a byte in a second at `suitability_tokens_per_s`, mean over bytes; empty if the trace has no steps"),
        column(109, "stores_per_byte_s_at_pace_p99", Unit::PerSecond, Merging::WithinParts, Getter::Number(|row| row.endurance.stores_per_byte_s_at_pace.p99),
            "the same, 99th percentile over bytes"),
        column(110, "stores_per_byte_s_at_pace_max", Unit::PerSecond, Merging::WithinParts, Getter::Number(|row| row.endurance.stores_per_byte_s_at_pace.max),
            "the same, most of any byte"),
    ],
    by_region: &[],
};
