//! Suitability: whether managed-retention memory could hold a type of region.

use std::borrow::Cow;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use dwell_events::RegionType;
use serde::{Deserialize, Serialize};

use super::read_frequency::ReadFrequency;
use super::{NS_PER_S, OfType, TypeFigures};
use crate::region_type::RegionTypeName;
use crate::survival::Quantile;

/// From which figures on a class is given, and at what pace. A class needs both of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuitabilityThresholds {
    /// Share of what is stored that is not stored again within `high_retention_s`, of `high_mrm`.
    pub high_write_once: f64,
    /// Retention of `high_mrm`, 99th percentile.
    pub high_retention_s: f64,
    /// The same within `medium_retention_s`, of `medium_mrm`.
    pub medium_write_once: f64,
    /// Retention of `medium_mrm`, median.
    pub medium_retention_s: f64,
    /// Steps per second that a class holds at: tokens per second of one sequence. Data is needed for a number of steps,
    /// whatever machine takes them; how many seconds that is depends on the machine that is to be built.
    pub tokens_per_s: f64,
}

impl Default for SuitabilityThresholds {
    fn default() -> Self {
        Self {
            high_write_once: 0.8,
            high_retention_s: 10.0,
            medium_write_once: 0.5,
            medium_retention_s: 1.0,
            // 50 ms per token is a common target of systems that serve people.
            tokens_per_s: 20.0,
        }
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
    /// No class: [`NotRatedReason`] says why.
    #[default]
    NotRated,
}

dwell_events::choices! {
    /// Why memory has no class.
    NotRatedReason {
        /// Lives went on when the trace ended, and how long they last decides the class.
        WindowTooShort = "window_too_short",
        /// Nobody knows what the memory holds.
        UnknownMemory = "unknown_memory",
        /// No life of it was read.
        NeverRead = "never_read",
        /// Accesses are missing from the trace.
        IncompleteTrace = "incomplete_trace",
        /// The run was disturbed, and its trace has no steps by which time could be told without that.
        ContaminatedRun = "contaminated_run",
        /// The trace has no time: its rows are only in order.
        NoClock = "no_clock",
    }
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

/// The class of a region type, and what it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Suitability {
    /// The class.
    pub class: SuitabilityClass,
    /// Why there is none.
    pub not_rated_because: Option<NotRatedReason>,
    /// Tokens per second that the class holds at; none if the trace has no steps, and seconds are those of the recording.
    pub tokens_per_s: Option<f64>,
    /// How long the trace is.
    pub window_s: f64,
    /// A longer trace would give a class, or could give a better one.
    pub is_window_limited: bool,
    /// How long half of the data is needed at that speed; none if the trace ended before, or if accesses are samples.
    pub needed_p50_s: Option<f64>,
    /// It is at least this.
    pub needed_p50_low_s: Option<f64>,
    /// How long all but a hundredth is needed at that speed; likewise.
    pub needed_p99_s: Option<f64>,
    /// It is at least this.
    pub needed_p99_low_s: Option<f64>,
    /// Share of what was stored that stays for the retention of `high_mrm` before it is overwritten, at that speed, at least.
    pub kept_low_share: Option<f64>,
    /// The same, at most.
    pub kept_high_share: Option<f64>,
    /// How long half of the data stays at that speed before it is overwritten; likewise.
    pub stays_p50_s: Option<f64>,
    /// It is at least this.
    pub stays_p50_low_s: Option<f64>,
}

impl TypeFigures for Suitability {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let observation = of_type.observation;
        let found = of_type.thresholds.rate(of_type);
        let is_exact = !of_type.totals.tallied.is_sampled(observation);
        let needed = |share| {
            let lives = &of_type.totals.tallied.lives;
            is_exact.then(|| lives.needed_at_pace_s(share, observation.has_steps())).flatten()
        };
        let (p50, p99) = (needed(0.5), needed(0.99));
        let lives = &of_type.totals.tallied.lives;
        let kept =
            lives.kept_at_pace(of_type.thresholds.high_retention_s, observation.has_steps()).filter(|_| is_exact);
        let stays = lives.resident_at_pace_s(0.5, observation.has_steps()).filter(|_| is_exact);
        Self {
            class: found.unwrap_or_default(),
            not_rated_because: found.err(),
            tokens_per_s: observation.has_steps().then_some(of_type.thresholds.tokens_per_s),
            window_s: observation.window_s,
            is_window_limited: found == Err(NotRatedReason::WindowTooShort),
            needed_p50_s: p50.and_then(|quantile| quantile.value),
            needed_p50_low_s: p50.map(|quantile| quantile.low),
            needed_p99_s: p99.and_then(|quantile| quantile.value),
            needed_p99_low_s: p99.map(|quantile| quantile.low),
            kept_low_share: kept.map(|share| share.low),
            kept_high_share: kept.map(|share| share.high),
            stays_p50_s: stays.and_then(|quantile| quantile.value),
            stays_p50_low_s: stays.map(|quantile| quantile.low),
        }
    }
}

impl Suitability {
    /// Withdraws the class.
    pub(crate) fn withdraw(&mut self, reason: NotRatedReason) {
        if self.class != SuitabilityClass::NotRated {
            *self = Self {
                class: SuitabilityClass::NotRated,
                not_rated_because: Some(reason),
                is_window_limited: false,
                ..*self
            };
        }
    }
}

impl SuitabilityThresholds {
    /// How long a step takes.
    pub(crate) fn step_ns(&self) -> f64 {
        NS_PER_S / self.tokens_per_s
    }

    /// By the definitions of mrm-trace.
    pub(crate) fn classify(&self, write_once: f64, p50_s: f64, p99_s: f64) -> SuitabilityClass {
        self.classify_kept((write_once, write_once), p50_s, p99_s)
    }

    /// Samples can show that memory is rewritten, never that it is not: a store that was missed would end a life earlier.
    fn class_of_sampled(&self, of_type: &OfType<'_>) -> SuitabilityClass {
        let (lives, has_steps) = (&of_type.totals.tallied.lives, of_type.observation.has_steps());
        let is_refuted = |retention_s, least_share| {
            lives.kept_at_pace(retention_s, has_steps).is_some_and(|kept| kept.is_surely_below(least_share))
        };
        let is_low = is_refuted(self.high_retention_s, self.high_write_once)
            && is_refuted(self.medium_retention_s, self.medium_write_once);
        // Memory that nobody reads is not rated, and nobody was seen to. A fixed period may meet the same part of a loop always.
        let is_read = ReadFrequency::of(of_type, &()).loads > 0;
        let is_fair = of_type.observation.samples.sampler().is_ok();
        if is_low && is_read && is_fair { SuitabilityClass::LowMrm } else { SuitabilityClass::NotEstimable }
    }

    /// `dwell`: a class is given if both ends of the intervals of retention give the same.
    fn rate(&self, of_type: &OfType<'_>) -> Result<SuitabilityClass, NotRatedReason> {
        if of_type.totals.region_type() == RegionType::Unknown {
            return Err(NotRatedReason::UnknownMemory);
        }
        if of_type.totals.tallied.is_sampled(of_type.observation) {
            return Ok(self.class_of_sampled(of_type));
        }
        let (lives, has_steps) = (&of_type.totals.tallied.lives, of_type.observation.has_steps());
        let needed_s = |share| lives.needed_at_pace_s(share, has_steps);
        let kept = |threshold_s| lives.kept_at_pace(threshold_s, has_steps);
        let (Some(p50), Some(p99), Some(high), Some(medium)) =
            (needed_s(0.5), needed_s(0.99), kept(self.high_retention_s), kept(self.medium_retention_s))
        else {
            return Err(NotRatedReason::NeverRead);
        };
        let most = |quantile: Quantile| quantile.high.unwrap_or(f64::INFINITY);
        let least = self.classify_kept((high.low, medium.low), p50.low, p99.low);
        let most = self.classify_kept((high.high, medium.high), most(p50), most(p99));
        if least == most { Ok(least) } else { Err(NotRatedReason::WindowTooShort) }
    }

    /// By the shares of what is stored that stays for the retention of either class.
    fn classify_kept(&self, (kept_high, kept_medium): (f64, f64), p50_s: f64, p99_s: f64) -> SuitabilityClass {
        if kept_high >= self.high_write_once && p99_s >= self.high_retention_s {
            SuitabilityClass::HighMrm
        } else if kept_medium >= self.medium_write_once && p50_s >= self.medium_retention_s {
            SuitabilityClass::MediumMrm
        } else {
            SuitabilityClass::LowMrm
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Suitability),
    page: "docs/metrics/suitability.md",
    by_type: &[
        column(10, "suitability", Unit::None, Merging::WithinParts, Getter::Text(|row| Some(Cow::from(row.suitability.class.name()))),
            "whether managed-retention memory could hold it: `high_mrm`, `medium_mrm`, `low_mrm`, `not_estimable` or `not_rated`"),
        column(17, "is_window_limited", Unit::None, Merging::WithinParts, Getter::Flag(|row| row.suitability.is_window_limited),
            "whether a longer run would give a class"),
        column(59, "not_rated_reason", Unit::None, Merging::WithinParts, Getter::Text(|row| row.suitability.not_rated_because.map(|reason| Cow::from(reason.name()))),
            "why there is no class: `window_too_short`, `unknown_memory`, `never_read`, `incomplete_trace`, `contaminated_run` or `no_clock`"),
        column(60, "suitability_tokens_per_s", Unit::None, Merging::WithinParts, Getter::Number(|row| row.suitability.tokens_per_s),
            "tokens per second of one sequence that the class holds at; empty if the trace has no steps, and seconds are those of the recording"),
        column(63, "needed_p50_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.needed_p50_s),
            "time for which half of the bytes are needed at that speed; empty if the run ended before, and for samples"),
        column(64, "needed_p50_low_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.needed_p50_low_s),
            "lower bound of `needed_p50_s`, at 95 %"),
        column(65, "needed_p99_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.needed_p99_s),
            "time for which 99 % of the bytes are needed at most, at that speed; empty if the run ended before, and for samples"),
        column(66, "needed_p99_low_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.needed_p99_low_s),
            "lower bound of `needed_p99_s`, at 95 %"),
        column(67, "kept_low_share", Unit::Ratio, Merging::WithinParts, Getter::Number(|row| row.suitability.kept_low_share),
            "share of what was stored that stays for the retention of `high_mrm` before it is overwritten, at that speed, at least; empty for samples"),
        column(68, "kept_high_share", Unit::Ratio, Merging::WithinParts, Getter::Number(|row| row.suitability.kept_high_share),
            "the same, at most"),
        column(69, "stays_p50_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.stays_p50_s),
            "time for which half of the bytes stay before they are overwritten, at that speed; empty if the run ended before, and for samples"),
        column(70, "stays_p50_low_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.suitability.stays_p50_low_s),
            "lower bound of `stays_p50_s`, at 95 %"),
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
