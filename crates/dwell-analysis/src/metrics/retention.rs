//! Retention: how long data had to be kept, from the store to the last load, and how long it stayed.

use std::borrow::Cow;

use crate::column::{Getter, Merging, MetricTable, Unit, column};
use dwell_events::Metric;
use serde::{Deserialize, Serialize};

use super::{NS_PER_S, OfType, TypeFigures, mean, share};
use crate::Basis;
use crate::distribution::Distribution;
use crate::exact::linear_quantile;
use crate::histogram::GatheredLives;
use crate::mrm_trace::RegionHistory;
use crate::observation::Observation;
use crate::region_type::RegionTypeName;
use crate::sampling::{Estimate, Obstacle};
use crate::step_clock::Span;
use crate::survival::{LastingShare, Quantile, Survival, Weight};

/// How long data had to be kept, and how long it stayed.
///
/// `dwell`: over lives, weighted by their bytes; quantiles by Kaplan–Meier, because lives that are open when the trace ends
/// may go on. A quantile that was not reached is none, and its lower bound says how far the trace saw. `mrm-trace`: over
/// regions, one life each.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Retention {
    /// How it was obtained; `inferred` if the store of any of the lives was not seen.
    pub basis: Basis,
    /// Half of the bytes were needed no longer.
    pub p50_s: Option<f64>,
    /// 90 % of the bytes were needed no longer.
    pub p90_s: Option<f64>,
    /// 99 % of the bytes were needed no longer.
    pub p99_s: Option<f64>,
    /// Mean; of lives that are open as far as the longest was seen.
    pub mean_s: Option<f64>,
    /// Longest that was seen.
    pub max_s: Option<f64>,
    /// Bytes of all lives; a byte counts once for each of its lives.
    pub life_bytes: Option<u64>,
    /// Of these, bytes that were stored and never loaded. They are not in the times above.
    pub never_read_bytes: Option<u64>,
    /// The same as a share.
    pub never_read_share: Option<f64>,
    /// Share of the life bytes that nothing had ended when the trace did; they may have been read again later.
    pub censored_share: Option<f64>,
    /// Share of the life bytes whose store was not seen; they may be older than the times say.
    pub inferred_share: Option<f64>,
    /// What the times are worth; none by the definitions of mrm-trace.
    pub estimate: Option<Estimate>,
    /// Why they are not estimable, if they are not.
    pub obstacle: Option<Obstacle>,
    /// The median is at least this; the median itself if it is exact.
    pub p50_low_s: Option<f64>,
    /// The median is at most this; none if nothing bounds it.
    pub p50_high_s: Option<f64>,
    /// The 99th percentile is at least this.
    pub p99_low_s: Option<f64>,
    /// The 99th percentile is at most this; none if nothing bounds it.
    pub p99_high_s: Option<f64>,
    /// The median in steps; none if it was not reached, or if the trace has no steps.
    pub p50_steps: Option<f64>,
    /// It is at least this.
    pub p50_low_steps: Option<f64>,
    /// The 99th percentile in steps.
    pub p99_steps: Option<f64>,
    /// It is at least this.
    pub p99_low_steps: Option<f64>,
    /// How long half of the bytes stayed at most, from the store until they were overwritten, evicted or freed.
    pub residency_p50_s: Option<f64>,
    /// It is at least this.
    pub residency_p50_low_s: Option<f64>,
    /// How long 99 % of the bytes stayed at most.
    pub residency_p99_s: Option<f64>,
    /// It is at least this.
    pub residency_p99_low_s: Option<f64>,
}

impl TypeFigures for Retention {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        of_type.totals.tallied.retention(of_type.observation)
    }
}

/// Lives of one region or type, summed up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LifeTally {
    /// From the store to the last load, of lives that were read.
    needed_ns: Survival,
    /// The same in steps.
    needed_steps: Survival,
    /// The same at the pace that suitability is rated at.
    needed_at_pace_ns: Survival,
    /// From the store to the end, of all lives.
    resident_ns: Survival,
    /// The same at the pace that suitability is rated at.
    resident_at_pace_ns: Survival,
    life_bytes: u64,
    loaded_bytes: u64,
    never_read_bytes: u64,
    /// Of them, bytes of lives that had not ended.
    never_read_open_bytes: u64,
    open_bytes: u64,
    inferred_bytes: u64,
    /// Samples of each life that was open at the end; only of sampled traces.
    samples: Distribution,
}

/// One life, as the tally needs it.
pub(crate) struct FinishedLife {
    /// None if it was never read.
    pub(crate) needed: Option<Needed>,
    /// From the store to the end, or to the end of the trace.
    pub(crate) resident: Needed,
    pub(crate) loads: u64,
    pub(crate) bytes: Weight,
    pub(crate) is_open: bool,
    pub(crate) is_inferred: bool,
}

/// From a store to the last load, or to the end of the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) ns: u64,
    pub(crate) span: Span,
}

impl Needed {
    /// How long it is where a step takes so long.
    fn at_pace_ns(self, step_ns: f64) -> u64 {
        // Rounded once: many steps of a rounded length would miss a threshold that they reach.
        ((self.span.steps as f64 * step_ns).round() as u64).saturating_add(self.span.pause_ns)
    }
}

impl LifeTally {
    /// Adds a life. `step_ns` is how long a step takes at the pace that suitability is rated at. No figure of a sampled trace
    /// says for how many steps data was needed.
    pub(crate) fn add(&mut self, life: &FinishedLife, step_ns: f64, is_sampled: bool) {
        let bytes = life.bytes.total;
        self.life_bytes = self.life_bytes.saturating_add(bytes);
        self.loaded_bytes = self.loaded_bytes.saturating_add(bytes.saturating_mul(life.loads));
        self.resident_ns.add(life.resident.ns, life.bytes, life.is_open);
        self.resident_at_pace_ns.add(life.resident.at_pace_ns(step_ns), life.bytes, life.is_open);
        match life.needed {
            Some(needed) => {
                self.needed_ns.add(needed.ns, life.bytes, life.is_open);
                if !is_sampled {
                    self.needed_steps.add(needed.span.steps, life.bytes, life.is_open);
                    self.needed_at_pace_ns.add(needed.at_pace_ns(step_ns), life.bytes, life.is_open);
                }
            }
            None => {
                self.never_read_bytes = self.never_read_bytes.saturating_add(bytes);
                if life.is_open {
                    self.never_read_open_bytes = self.never_read_open_bytes.saturating_add(bytes);
                }
            }
        }
        if life.is_open {
            self.open_bytes = self.open_bytes.saturating_add(bytes);
        }
        if life.is_inferred {
            self.inferred_bytes = self.inferred_bytes.saturating_add(bytes);
        }
    }

    /// How long data was needed: from the store to the last load, of lives that were read.
    pub(crate) fn needed_ns(&self) -> &Survival {
        &self.needed_ns
    }

    /// How long data was there: from the store to the end, of all lives.
    pub(crate) fn resident_ns(&self) -> &Survival {
        &self.resident_ns
    }

    pub(crate) fn merge(&mut self, other: &LifeTally) {
        self.needed_ns.merge(&other.needed_ns);
        self.needed_steps.merge(&other.needed_steps);
        self.needed_at_pace_ns.merge(&other.needed_at_pace_ns);
        self.resident_ns.merge(&other.resident_ns);
        self.resident_at_pace_ns.merge(&other.resident_at_pace_ns);
        self.life_bytes = self.life_bytes.saturating_add(other.life_bytes);
        self.loaded_bytes = self.loaded_bytes.saturating_add(other.loaded_bytes);
        self.never_read_bytes = self.never_read_bytes.saturating_add(other.never_read_bytes);
        self.never_read_open_bytes = self.never_read_open_bytes.saturating_add(other.never_read_open_bytes);
        self.open_bytes = self.open_bytes.saturating_add(other.open_bytes);
        self.inferred_bytes = self.inferred_bytes.saturating_add(other.inferred_bytes);
        self.samples.merge(&other.samples);
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let survivals = [
            &self.needed_ns,
            &self.needed_steps,
            &self.needed_at_pace_ns,
            &self.resident_ns,
            &self.resident_at_pace_ns,
        ];
        survivals.iter().map(|survival| survival.held_bytes()).sum::<usize>() + self.samples.held_bytes()
    }

    /// Takes how many samples an open life has.
    pub(crate) fn add_samples(&mut self, samples: u64, bytes: u64) {
        self.samples.add(samples, bytes);
    }

    /// Samples of a life that this share of the bytes of open lives does not exceed.
    pub(crate) fn samples_of_open_lives(&self, share: f64) -> Option<f64> {
        self.samples.quantile(share)
    }

    pub(crate) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// Bytes of lives that a store ended.
    pub(crate) fn ended_bytes(&self) -> u64 {
        self.life_bytes.saturating_sub(self.open_bytes)
    }

    /// Retention that this share of the bytes was not seen to exceed.
    pub(crate) fn seen_ns(&self, share: f64) -> Option<f64> {
        self.needed_ns.quantile_of_seen(share)
    }

    /// How long data is needed at the pace that suitability is rated at; as recorded if the trace has no steps.
    pub(crate) fn needed_at_pace_s(&self, share: f64, has_steps: bool) -> Option<Quantile> {
        let needed = if has_steps { &self.needed_at_pace_ns } else { &self.needed_ns };
        needed.quantile(share).map(|quantile| quantile.divided_by(NS_PER_S))
    }

    /// How long data stays before it is overwritten, at the pace that suitability is rated at; as recorded if the trace has
    /// no steps.
    pub(crate) fn resident_at_pace_s(&self, share: f64, has_steps: bool) -> Option<Quantile> {
        let resident = if has_steps { &self.resident_at_pace_ns } else { &self.resident_ns };
        resident.quantile(share).map(|quantile| quantile.divided_by(NS_PER_S))
    }

    /// Share of what was stored that stays so long before it is overwritten, at the pace that suitability is rated at; as
    /// recorded if the trace has no steps.
    pub(crate) fn kept_at_pace(&self, duration_s: f64, has_steps: bool) -> Option<LastingShare> {
        let resident = if has_steps { &self.resident_at_pace_ns } else { &self.resident_ns };
        resident.lasting(duration_s * NS_PER_S)
    }

    /// The lives for a histogram.
    pub(crate) fn gathered(&self, region_type: RegionTypeName) -> GatheredLives {
        GatheredLives {
            region_type,
            ended: self.needed_ns.ended_points().collect(),
            open: self.needed_ns.open_points().collect(),
            never_read_bytes: self.never_read_bytes,
            never_read_open_bytes: self.never_read_open_bytes,
            longest_ns: self.needed_ns.largest_seen().unwrap_or(0),
        }
    }

    /// Loads of a byte in one of its lives, on average over life bytes.
    pub(crate) fn reads_per_life(&self) -> Option<f64> {
        share(self.loaded_bytes, self.life_bytes)
    }

    /// Whether any of the lives began with a store that was not seen.
    pub(crate) fn has_unseen_stores(&self) -> bool {
        self.inferred_bytes > 0
    }

    /// Shares of the life bytes, which samples cannot tell.
    fn shares(&self) -> Retention {
        Retention {
            life_bytes: Some(self.life_bytes),
            never_read_bytes: Some(self.never_read_bytes),
            never_read_share: share(self.never_read_bytes, self.life_bytes),
            censored_share: share(self.open_bytes, self.life_bytes),
            inferred_share: share(self.inferred_bytes, self.life_bytes),
            ..Retention::default()
        }
    }

    pub(crate) fn figures(&self, rows_basis: Basis, observation: &Observation) -> Retention {
        let needed =
            |share| self.needed_ns.quantile(share).map(|found| observation.resolved(found.divided_by(NS_PER_S)));
        let resident = |share| self.resident_ns.quantile(share).map(|found| found.divided_by(NS_PER_S));
        let steps = |share| self.needed_steps.quantile(share).filter(|_| observation.has_steps());
        let (p50, p99) = (needed(0.5), needed(0.99));
        let (steps_p50, steps_p99) = (steps(0.5), steps(0.99));
        let (resident_p50, resident_p99) = (resident(0.5), resident(0.99));
        Retention {
            basis: if self.has_unseen_stores() { Basis::Inferred } else { rows_basis },
            p50_s: p50.and_then(|found| found.value),
            p90_s: needed(0.9).and_then(|found| found.value),
            p99_s: p99.and_then(|found| found.value),
            mean_s: self.needed_ns.restricted_mean().map(|ns| ns / NS_PER_S),
            max_s: self.needed_ns.largest_seen().map(|ns| ns as f64 / NS_PER_S),
            estimate: Some(self.estimate()),
            p50_low_s: p50.map(|found| found.low),
            p50_high_s: p50.and_then(|found| found.high),
            p99_low_s: p99.map(|found| found.low),
            p99_high_s: p99.and_then(|found| found.high),
            p50_steps: steps_p50.and_then(|found| found.value),
            p50_low_steps: steps_p50.map(|found| found.low),
            p99_steps: steps_p99.and_then(|found| found.value),
            p99_low_steps: steps_p99.map(|found| found.low),
            residency_p50_s: resident_p50.and_then(|found| found.value),
            residency_p50_low_s: resident_p50.map(|found| found.low),
            residency_p99_s: resident_p99.and_then(|found| found.value),
            residency_p99_low_s: resident_p99.map(|found| found.low),
            ..self.shares()
        }
    }

    /// What the times are worth.
    fn estimate(&self) -> Estimate {
        if !self.needed_ns.is_empty() && self.needed_ns.largest_seen() == Some(0) {
            Estimate::BelowResolution
        } else if self.open_bytes > 0 {
            Estimate::Censored
        } else {
            Estimate::Exact
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Retention),
    page: "docs/metrics/retention.md",
    by_type: &[
        column(2, "retention_p50_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p50_s),
            "median over bytes of how long data was needed, from its store to its last load; empty if the trace ended before"),
        column(3, "retention_p90_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p90_s),
            "the same, 90th percentile"),
        column(4, "retention_p99_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p99_s),
            "the same, 99th percentile"),
        column(5, "retention_mean_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.mean_s),
            "the same, mean; lives that had not ended count up to the longest that was seen"),
        column(13, "retention_basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.retention.basis.name()))),
            "how the retention was obtained"),
        column(18, "retention_max_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| row.retention.max_s),
            "longest that was seen"),
        column(19, "life_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.retention.life_bytes),
            "bytes of all lives; a byte counts once for each life"),
        column(20, "never_read_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.retention.never_read_bytes),
            "of them, bytes that were never loaded"),
        column(21, "censored_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.censored_share),
            "share of the lives that had not ended when the run did"),
        column(22, "inferred_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.inferred_share),
            "share of the lives whose store was not seen"),
        column(39, "retention_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.retention.estimate.map(Estimate::name).map(Cow::from)),
            "what the retention is worth: `exact`, `censored` (lives had not ended; bounds are 95 % intervals), `below_resolution`, `bounded` or `not_estimable` (sampled)"),
        column(40, "retention_p50_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.p50_low_s),
            "least that the median can be"),
        column(41, "retention_p50_high_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.retention.p50_high_s),
            "most that the median can be; empty if nothing bounds it"),
        column(42, "retention_p99_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.p99_low_s),
            "least that the 99th percentile can be"),
        column(43, "retention_p99_high_s", Unit::Seconds, Merging::WithinParts, Getter::Number(|row| row.retention.p99_high_s),
            "most that the 99th percentile can be; empty if nothing bounds it"),
        column(48, "never_read_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.never_read_share),
            "share of the lives that were never loaded"),
        column(49, "retention_p50_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p50_steps),
            "median over bytes of how long data was needed, in steps; empty if the trace ended before"),
        column(50, "retention_p50_low_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p50_low_steps),
            "least that it can be"),
        column(51, "retention_p99_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p99_steps),
            "99th percentile in steps"),
        column(52, "retention_p99_low_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p99_low_steps),
            "least that it can be"),
        column(53, "residency_p50_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.residency_p50_s),
            "median over bytes of how long data stayed, from its store until it was overwritten, evicted or freed; empty if the trace ended before"),
        column(54, "residency_p50_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.residency_p50_low_s),
            "least that it can be"),
        column(55, "residency_p99_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.residency_p99_s),
            "the same, 99th percentile"),
        column(56, "residency_p99_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.residency_p99_low_s),
            "least that it can be"),
    ],
    by_region: &[
        column(4, "retention_p50_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p50_s),
            "median over bytes of how long data was needed, from its store to its last load; empty if the trace ended before"),
        column(5, "retention_p90_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p90_s),
            "the same, 90th percentile"),
        column(6, "retention_p99_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.p99_s),
            "the same, 99th percentile"),
        column(7, "retention_mean_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.mean_s),
            "the same, mean; lives that had not ended count up to the longest that was seen"),
        column(8, "retention_max_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| row.retention.max_s),
            "longest that was seen"),
        column(9, "retention_basis", Unit::None, Merging::Weakest, Getter::Text(|row| Some(Cow::from(row.retention.basis.name()))),
            "how the retention was obtained"),
        column(10, "life_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.retention.life_bytes),
            "bytes of all lives; a byte counts once for each life"),
        column(11, "never_read_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| row.retention.never_read_bytes),
            "of them, bytes that were never loaded"),
        column(12, "censored_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.censored_share),
            "share of the lives that had not ended when the run did"),
        column(13, "inferred_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.inferred_share),
            "share of the lives whose store was not seen"),
        column(27, "retention_p50_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.p50_low_s),
            "least that the median can be"),
        column(28, "retention_p99_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.p99_low_s),
            "least that the 99th percentile can be"),
        column(29, "never_read_share", Unit::Ratio, Merging::Derived, Getter::Number(|row| row.retention.never_read_share),
            "share of the lives that were never loaded"),
        column(30, "retention_p50_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p50_steps),
            "median over bytes of how long data was needed, in steps; empty if the trace ended before"),
        column(31, "retention_p50_low_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p50_low_steps),
            "least that it can be"),
        column(32, "retention_p99_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p99_steps),
            "99th percentile in steps"),
        column(33, "retention_p99_low_steps", Unit::None, Merging::WithinParts, Getter::Number(|row| row.retention.p99_low_steps),
            "least that it can be"),
        column(34, "residency_p50_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.residency_p50_s),
            "median over bytes of how long data stayed, from its store until it was overwritten, evicted or freed; empty if the trace ended before"),
        column(35, "residency_p50_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.residency_p50_low_s),
            "least that it can be"),
        column(36, "residency_p99_s", Unit::Seconds, Merging::Distribution, Getter::Number(|row| row.retention.residency_p99_s),
            "the same, 99th percentile"),
        column(37, "residency_p99_low_s", Unit::Seconds, Merging::WidestBounds, Getter::Number(|row| row.retention.residency_p99_low_s),
            "least that it can be"),
    ],
};

/// `mrm-trace`: retention of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmRetentionRegion {
    /// Region.
    pub region_id: u64,
    /// Type of the region's first row.
    pub region_type: RegionTypeName,
    /// Earliest store; earliest access if there was none.
    pub first_write_ns: u64,
    /// Latest load; the first write if there was none.
    pub last_read_ns: u64,
    /// From one to the other; 0 if they are the other way round.
    pub retention_ns: u64,
    /// The same in seconds.
    pub retention_s: f64,
}

/// `mrm-trace`: retention of the regions of one type, unweighted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MrmRetentionSummary {
    /// Type of the regions.
    pub region_type: RegionTypeName,
    /// Regions of the type.
    pub n_regions: u64,
    /// Median, linearly interpolated as all quantiles here.
    pub retention_p50_s: f64,
    /// 90th percentile.
    pub retention_p90_s: f64,
    /// 99th percentile.
    pub retention_p99_s: f64,
    /// Mean.
    pub retention_mean_s: f64,
}

pub(crate) fn mrm_regions(regions: &[RegionHistory]) -> Vec<MrmRetentionRegion> {
    let retention = |RegionHistory { rows, region_type, .. }: &RegionHistory| {
        let first_write_ns = rows.first_store_ns.unwrap_or(rows.first_access_ns);
        let last_read_ns = rows.last_load_ns.unwrap_or(first_write_ns);
        let retention_ns = last_read_ns.saturating_sub(first_write_ns);
        MrmRetentionRegion {
            region_id: rows.region_id,
            region_type: region_type.clone(),
            first_write_ns,
            last_read_ns,
            retention_ns,
            retention_s: retention_ns as f64 / NS_PER_S,
        }
    };
    regions.iter().map(retention).collect()
}

/// One row per type in `types`, which are sorted and all in use.
pub(crate) fn mrm_summary(types: &[RegionTypeName], regions: &[MrmRetentionRegion]) -> Vec<MrmRetentionSummary> {
    let summary = |region_type: &RegionTypeName| {
        let of_type = regions.iter().filter(|region| region.region_type == *region_type);
        let mut retentions_s: Vec<f64> = of_type.map(|region| region.retention_s).collect();
        let mean_s = mean(retentions_s.iter().copied())?;
        Some(MrmRetentionSummary {
            region_type: region_type.clone(),
            n_regions: retentions_s.len() as u64,
            retention_p50_s: linear_quantile(&mut retentions_s, 0.5)?,
            retention_p90_s: linear_quantile(&mut retentions_s, 0.9)?,
            retention_p99_s: linear_quantile(&mut retentions_s, 0.99)?,
            retention_mean_s: mean_s,
        })
    };
    types.iter().filter_map(summary).collect()
}
