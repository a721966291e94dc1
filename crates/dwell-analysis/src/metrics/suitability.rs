//! Suitability: whether managed-retention memory could hold a type of region.

use std::borrow::Cow;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use dwell_events::RegionType;
use serde::{Deserialize, Serialize};

use super::read_frequency::ReadFrequency;
use super::retention::Retention;
use super::write_once::WriteOnce;
use super::{OfType, TypeFigures};
use crate::region_type::RegionTypeName;
use crate::sampling::Estimate;

/// From which figures on a class is given. A class needs both of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuitabilityThresholds {
    /// Write-once ratio of `high_mrm`.
    pub high_write_once: f64,
    /// Retention of `high_mrm`, 99th percentile.
    pub high_retention_s: f64,
    /// Write-once ratio of `medium_mrm`.
    pub medium_write_once: f64,
    /// Retention of `medium_mrm`, median.
    pub medium_retention_s: f64,
}

impl Default for SuitabilityThresholds {
    fn default() -> Self {
        Self { high_write_once: 0.8, high_retention_s: 10.0, medium_write_once: 0.5, medium_retention_s: 1.0 }
    }
}

/// Whether managed-retention memory could hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SuitabilityClass {
    /// Written once and kept long.
    HighMrm,
    /// Mostly written once and kept for a while.
    MediumMrm,
    /// Neither.
    LowMrm,
    /// Only some accesses were seen, and they do not exclude a better class.
    NotEstimable,
    /// Not attributed memory, or memory with nothing to rate: no life of it was seen.
    #[default]
    NotRated,
}

impl SuitabilityClass {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            SuitabilityClass::HighMrm => "high_mrm",
            SuitabilityClass::MediumMrm => "medium_mrm",
            SuitabilityClass::LowMrm => "low_mrm",
            SuitabilityClass::NotEstimable => "not_estimable",
            SuitabilityClass::NotRated => "not_rated",
        }
    }
}

/// The class of a region type, and whether the trace was long enough to give a better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Suitability {
    /// The class.
    pub class: SuitabilityClass,
    /// How long the trace is.
    pub window_s: f64,
    /// A longer trace could give a better class: its write-once ratio is reached, its retention is not, and the trace
    /// is shorter than that retention or lives were still open when it ended.
    pub is_window_limited: bool,
}

impl TypeFigures for Suitability {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let region_type = of_type.totals.region_type();
        let (write_once, retention) = (WriteOnce::of(of_type, &()), Retention::of(of_type, &()));
        let read_frequency = ReadFrequency::of(of_type, &());
        of_type.thresholds.rate(region_type, &write_once, &retention, &read_frequency, of_type.window_s)
    }
}

impl SuitabilityThresholds {
    pub(crate) fn classify(&self, write_once: f64, p50_s: f64, p99_s: f64) -> SuitabilityClass {
        if write_once >= self.high_write_once && p99_s >= self.high_retention_s {
            SuitabilityClass::HighMrm
        } else if write_once >= self.medium_write_once && p50_s >= self.medium_retention_s {
            SuitabilityClass::MediumMrm
        } else {
            SuitabilityClass::LowMrm
        }
    }

    /// Samples can show that memory is rewritten, never that it is not.
    fn class_of_sampled(&self, most_write_once: Option<f64>) -> SuitabilityClass {
        match most_write_once {
            Some(most) if most < self.high_write_once.min(self.medium_write_once) => SuitabilityClass::LowMrm,
            _ => SuitabilityClass::NotEstimable,
        }
    }

    /// `dwell`: unknown memory, and memory of which nothing is known, is not rated.
    pub(crate) fn rate(
        &self,
        region_type: RegionType,
        write_once: &WriteOnce,
        retention: &Retention,
        read_frequency: &ReadFrequency,
        window_s: f64,
    ) -> Suitability {
        let of_class = |class| Suitability { class, window_s, is_window_limited: false };
        if region_type == RegionType::Unknown {
            return of_class(SuitabilityClass::NotRated);
        }
        if write_once.estimate != Some(Estimate::Exact) {
            // Memory that nobody reads is not rated, and nobody was seen to.
            let is_read = read_frequency.loads > 0;
            return of_class(self.class_of_sampled(write_once.high.filter(|_| is_read)));
        }
        let (Some(write_once), Some(p50_s), Some(p99_s)) = (write_once.ratio, retention.p50_s, retention.p99_s) else {
            return of_class(SuitabilityClass::NotRated);
        };
        let class = self.classify(write_once, p50_s, p99_s);
        let has_open_lives = retention.censored_share.is_some_and(|share| share > 0.0);
        let is_out_of_reach = |retention_s| window_s < retention_s || has_open_lives;
        let could_be_high = write_once >= self.high_write_once && is_out_of_reach(self.high_retention_s);
        let could_be_medium = write_once >= self.medium_write_once && is_out_of_reach(self.medium_retention_s);
        let is_window_limited = match class {
            SuitabilityClass::HighMrm | SuitabilityClass::NotEstimable | SuitabilityClass::NotRated => false,
            SuitabilityClass::MediumMrm => could_be_high,
            SuitabilityClass::LowMrm => could_be_high || could_be_medium,
        };
        Suitability { class, window_s, is_window_limited }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Suitability),
    page: "docs/metrics/suitability.md",
    by_type: &[
        column(10, "suitability", Unit::None, Merging::Derived, Getter::Text(|row| Some(Cow::from(row.suitability.class.name()))),
            "whether managed-retention memory could hold it: `high_mrm`, `medium_mrm`, `low_mrm`, `not_estimable` or `not_rated`"),
        column(17, "is_window_limited", Unit::None, Merging::Derived, Getter::Flag(|row| row.suitability.is_window_limited),
            "whether a longer run could give a better suitability"),
    ],
    by_region: &[],
};

/// `mrm-trace`: class of one region type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmSuitability {
    /// Type of the regions.
    pub region_type: RegionTypeName,
    /// Mean over the regions that were stored to; 0 if none was.
    pub write_once_ratio_mean: f64,
    /// 99th percentile of the regions' retention.
    pub retention_p99_s: f64,
    /// Median of the regions' retention.
    pub retention_p50_s: f64,
    /// The class.
    pub suitability: SuitabilityClass,
}
