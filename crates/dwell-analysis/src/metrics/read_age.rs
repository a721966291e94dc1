//! Read age: how old data is when it is read.

use std::borrow::Cow;

use dwell_events::Metric;
use serde::Serialize;

use super::{NS_PER_S, OfType, TypeFigures};
use crate::Basis;
use crate::column::{Getter, Merging, MetricTable, Unit, column};
use crate::distribution::Distribution;
use crate::sampling::Estimate;

/// How old data is when it is read, over all reads, weighted by their bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadAge {
    /// What the ages are worth; none if nobody asked for them.
    pub estimate: Option<Estimate>,
    /// How they were obtained; `inferred` if a store was not seen, or if reads come from the lives of KV blocks.
    pub basis: Option<Basis>,
    /// In seconds.
    pub seconds: AgeQuantiles,
    /// In steps that began since the store; none if the trace has no steps.
    pub steps: AgeQuantiles,
}

/// The time within which reads follow the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AgeQuantiles {
    /// Half of the reads.
    pub p50: Option<f64>,
    /// 99 % of the reads.
    pub p99: Option<f64>,
    /// 99.9 % of the reads.
    pub p999: Option<f64>,
    /// All reads that were seen.
    pub max: Option<f64>,
}

impl AgeQuantiles {
    fn of(ages: &Distribution, unit: f64) -> Self {
        let quantile = |share| ages.quantile(share).map(|age| age / unit);
        Self {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: ages.largest_seen().map(|age| age as f64 / unit),
        }
    }
}

impl TypeFigures for ReadAge {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let ages = of_type.totals.requested.ages.as_ref();
        let estimate = ages.map(|_| of_type.requested_estimate());
        let Some(ages) = ages.filter(|_| estimate == Some(Estimate::Exact)) else {
            return Self { estimate, ..Self::default() };
        };
        let basis = if ages.has_inferred { Basis::Inferred } else { of_type.totals.tallied.basis };
        let has_steps = of_type.observation.has_steps();
        Self {
            estimate,
            basis: Some(basis),
            seconds: AgeQuantiles::of(&ages.ns, NS_PER_S),
            steps: if has_steps { AgeQuantiles::of(&ages.steps, 1.0) } else { AgeQuantiles::default() },
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::ReadAge),
    page: "docs/metrics/read_age.md",
    by_type: &[
        column(92, "read_age_basis", Unit::None, Merging::Weakest, Getter::Text(|row| row.read_age.basis.map(|basis| Cow::from(basis.name()))),
            "how the ages of reads were obtained; empty if accesses were sampled"),
        column(93, "read_age_p50_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.read_age.seconds.p50),
            "time after the store within which half of the bytes read were read"),
        column(94, "read_age_p99_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.read_age.seconds.p99),
            "the same for 99 %"),
        column(95, "read_age_p999_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.read_age.seconds.p999),
            "the same for 99.9 %"),
        column(96, "read_age_max_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| row.read_age.seconds.max),
            "the same for all of them: the oldest data that was read"),
        column(97, "read_age_p50_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.read_age.steps.p50),
            "steps after the store within which half of the bytes read were read; empty if the trace has no steps"),
        column(98, "read_age_p99_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.read_age.steps.p99),
            "the same for 99 %"),
        column(99, "read_age_p999_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.read_age.steps.p999),
            "the same for 99.9 %"),
        column(100, "read_age_max_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.read_age.steps.max),
            "the same for all of them"),
    ],
    by_region: &[],
};
