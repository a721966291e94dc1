//! How long something lasted, where part of it had not ended when the trace did: Kaplan–Meier by weight.
//!
//! A life that is open at the end lasted at least as long as was seen. Counting it as ended there makes every quantile grow
//! with the run; leaving it out keeps the short lives only. The product-limit estimator counts it among those at risk up to the
//! moment at which it was last seen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::distribution::{Bucket, Distribution};

/// Standard normal quantile of a two-sided interval of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;

/// Chance that a bound is passed on one side of such an interval.
const TAIL: f64 = 0.025;

/// Durations in any unit, weighted, of which some are known only to be at least so long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Survival {
    ended: Distribution,
    open: Distribution,
    /// Sum of the squared weights of single durations: how far they are from one large one. Whole, so that it does not
    /// depend on the order of what is added.
    squared_weights: u128,
}

/// How much durations that are equally long weigh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) total: u64,
    /// Sum of the squares of the single ones.
    pub(crate) squared: u128,
}

impl Weight {
    /// Of a single duration.
    pub(crate) fn of_one(total: u64) -> Self {
        Self { total, squared: u128::from(total) * u128::from(total) }
    }
}

/// A quantile with the bounds between which it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantile {
    /// None if so few durations ended that the quantile was not reached.
    pub(crate) value: Option<f64>,
    /// It is at least this.
    pub(crate) low: f64,
    /// It is at most this; none if no duration bounds it.
    pub(crate) high: Option<f64>,
}

impl Quantile {
    fn exact(value: f64) -> Self {
        Self { value: Some(value), low: value, high: Some(value) }
    }

    /// The same in another unit.
    pub(crate) fn divided_by(self, unit: f64) -> Self {
        Self {
            value: self.value.map(|value| value / unit),
            low: self.low / unit,
            high: self.high.map(|high| high / unit),
        }
    }
}

/// Bounds of the share that lasts at least a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LastingShare {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How many equally heavy durations it was found from.
    lives: f64,
}

impl LastingShare {
    /// Whether the share is below a limit, whatever chance did to the durations that were seen.
    pub(crate) fn is_surely_below(&self, limit: f64) -> bool {
        const STANDARD_ERRORS: f64 = 3.0;
        let error = (self.high * (1.0 - self.high) / self.lives).sqrt().max(1.0 / self.lives);
        self.high + STANDARD_ERRORS * error < limit
    }
}

/// The survival curve after one of its points.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) at: f64,
    /// Share that lasts longer.
    pub(crate) surviving: f64,
    /// Bounds of that share, at 95 %.
    pub(crate) surviving_low: f64,
    pub(crate) surviving_high: f64,
}

impl Survival {
    /// Adds a duration; an open one lasted at least so long.
    pub(crate) fn add(&mut self, duration: u64, weight: Weight, is_open: bool) {
        let durations = if is_open { &mut self.open } else { &mut self.ended };
        durations.add(duration, weight.total);
        self.squared_weights = self.squared_weights.saturating_add(weight.squared);
    }

    pub(crate) fn merge(&mut self, other: &Survival) {
        self.ended.merge(&other.ended);
        self.open.merge(&other.open);
        self.squared_weights = self.squared_weights.saturating_add(other.squared_weights);
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        self.ended.held_bytes() + self.open.held_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.largest_seen().is_none()
    }

    /// The longest that was seen, ended or not.
    pub(crate) fn largest_seen(&self) -> Option<u64> {
        self.ended.largest_seen().max(self.open.largest_seen())
    }

    /// Weight of all durations, and of those that were still going on.
    pub(crate) fn weights(&self) -> (u64, u64) {
        (self.ended.weight().saturating_add(self.open.weight()), self.open.weight())
    }

    /// Durations that ended, with their weights, ascending.
    pub(crate) fn ended_points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.ended.points()
    }

    /// Durations that were still going on, as far as they were seen.
    pub(crate) fn open_points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.open.points()
    }

    /// The quantile of what was seen, as if every duration had ended when it was last seen.
    pub(crate) fn quantile_of_seen(&self, share: f64) -> Option<f64> {
        let mut all = self.ended.clone();
        all.merge(&self.open);
        all.quantile(share)
    }

    /// The duration that this share does not exceed; none of nothing. Exact if every duration ended.
    pub(crate) fn quantile(&self, share: f64) -> Option<Quantile> {
        let longest = self.largest_seen()? as f64;
        if self.open.largest_seen().is_none() {
            return self.ended.quantile(share).map(Quantile::exact);
        }
        let curve = self.curve();
        // A product of many factors is off by as many roundings; a share that is met exactly counts as met.
        let left = (1.0 - share) * (1.0 + 1e-9);
        // Where the curve itself, its upper and its lower bound come down to what is to be left.
        let reached =
            |is_reached: &dyn Fn(&Point) -> bool| curve.iter().find(|point| is_reached(point)).map(|point| point.at);
        Some(Quantile {
            value: reached(&|point| point.surviving <= left),
            low: reached(&|point| point.surviving_low <= left).unwrap_or(longest),
            high: reached(&|point| point.surviving_high <= left),
        })
    }

    /// The share that lasts at least so long; none of nothing. Where nothing was seen for so long, what was still going on may
    /// have ended at once: then it is between none and what was left.
    pub(crate) fn lasting(&self, duration: f64) -> Option<LastingShare> {
        let longest = self.largest_seen()? as f64;
        let curve = self.curve();
        let share = curve.iter().rfind(|point| point.at < duration).map_or(1.0, |point| point.surviving);
        let is_seen = duration <= longest || self.open.largest_seen().is_none();
        let lives = self.effective_count(self.weights().0 as f64);
        Some(LastingShare { low: if is_seen { share } else { 0.0 }, high: share, lives })
    }

    /// The mean, as far as durations were seen: what lasts longer than the longest that was seen counts as long as that one.
    pub(crate) fn restricted_mean(&self) -> Option<f64> {
        let longest = self.largest_seen()? as f64;
        if self.open.largest_seen().is_none() {
            return self.ended.mean();
        }
        let (mut sum, mut from, mut surviving) = (0.0, 0.0, 1.0);
        for point in self.curve() {
            sum += surviving * (point.at - from);
            (from, surviving) = (point.at, point.surviving);
        }
        Some(sum + surviving * (longest - from).max(0.0))
    }

    /// How many equally heavy durations say as much as these.
    fn effective_count(&self, weight: f64) -> f64 {
        if self.squared_weights > 0 { weight * weight / self.squared_weights as f64 } else { 0.0 }
    }

    /// What was seen, in the order of time.
    fn seen(&self) -> Vec<Seen> {
        let mut open: BTreeMap<u16, Bucket> = self.open.numbered_buckets().collect();
        let mut seen = Vec::new();
        for (number, ended) in self.ended.numbered_buckets() {
            let earlier = open.split_off(&number);
            seen.extend(std::mem::replace(&mut open, earlier).values().map(Seen::open));
            match open.remove(&number) {
                Some(open) => seen.extend(Seen::in_one_bucket(&ended, &open)),
                None => seen.push(Seen::ended(&ended)),
            }
        }
        seen.extend(open.values().map(Seen::open));
        seen
    }

    /// The curve at every duration that was seen.
    pub(crate) fn curve(&self) -> Vec<Point> {
        let seen = self.seen();
        let weight = self.ended.weight() as f64 + self.open.weight() as f64;
        let lives_per_weight = self.effective_count(weight) / weight;
        let mut at_risk = weight;
        let (mut surviving, mut greenwood, mut ended_lives) = (1.0, 0.0, 0.0);
        let mut curve = Vec::with_capacity(seen.len());
        for Seen { at, is_open, weight } in seen {
            if !is_open {
                let remaining = (at_risk - weight).max(0.0);
                surviving *= remaining / at_risk;
                greenwood += weight / (at_risk * remaining * lives_per_weight);
                ended_lives += weight * lives_per_weight;
            }
            at_risk = (at_risk - weight).max(0.0);
            let (surviving_low, surviving_high) = bounds(surviving, greenwood, ended_lives, at_risk * lives_per_weight);
            curve.push(Point { at, surviving, surviving_low, surviving_high });
        }
        curve
    }
}

/// Durations that ended or were left open at about the same time.
#[derive(Clone, Copy)]
struct Seen {
    at: f64,
    is_open: bool,
    weight: f64,
}

impl Seen {
    fn ended(bucket: &Bucket) -> Self {
        Self { at: bucket.mean(), is_open: false, weight: bucket.weight as f64 }
    }

    fn open(bucket: &Bucket) -> Self {
        Self { is_open: true, ..Self::ended(bucket) }
    }

    /// Those of one bucket. What ended comes before what was left open at the same time, which outlasted it. Where the two
    /// overlap, half of what was left open is taken to have been at risk, as life tables do.
    fn in_one_bucket(ended: &Bucket, open: &Bucket) -> Vec<Self> {
        let (first, last) = (Self::ended(ended), Self::open(open));
        if ended.largest <= open.least {
            return vec![first, last];
        }
        if open.largest < ended.least {
            return vec![last, first];
        }
        let half = Self { weight: last.weight / 2.0, ..last };
        // Points of a curve ascend.
        let at = |seen: Self, at: f64| Self { at, ..seen };
        let (least, most) = (first.at.min(last.at), first.at.max(last.at));
        vec![at(half, least), first, at(half, most)]
    }
}

/// Bounds of a surviving share, from Greenwood's sum on the log-log scale, which stays between 0 and 1. Until as much as one
/// life has ended that scale says nothing, and its bounds would be anywhere: then the least share that leaves so many lives
/// without an end with some probability.
fn bounds(surviving: f64, greenwood: f64, ended_lives: f64, lives_at_risk: f64) -> (f64, f64) {
    if surviving <= 0.0 {
        return (0.0, 0.0);
    }
    if ended_lives < 1.0 {
        let unended = TAIL.powf(1.0 / lives_at_risk.max(f64::MIN_POSITIVE));
        return (unended.min(surviving), 1.0);
    }
    let log = surviving.ln();
    let spread = (Z_95 * greenwood.sqrt() / log.abs()).exp();
    (surviving.powf(spread), surviving.powf(1.0 / spread))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survival(durations: &[(u64, bool)]) -> Survival {
        let mut survival = Survival::default();
        durations.iter().for_each(|&(duration, is_open)| survival.add(duration, Weight::of_one(1), is_open));
        survival
    }

    #[test]
    fn without_open_durations_quantiles_and_mean_are_those_of_the_list() {
        let ended: Vec<(u64, bool)> = (1..=10).map(|duration| (duration * 10, false)).collect();
        let survival = survival(&ended);
        assert_eq!(survival.quantile(0.5), Some(Quantile::exact(50.0)));
        assert_eq!(survival.quantile(0.99), Some(Quantile::exact(100.0)));
        assert_eq!(survival.restricted_mean(), Some(55.0));
    }

    /// Remission times of the 6-MP arm of Freireich et al. (1963), the textbook's example of the estimator: S(6) = 0.857,
    /// S(10) = 0.753, S(13) = 0.690, S(16) = 0.627, S(22) = 0.538, S(23) = 0.448; the median is 23 weeks.
    #[test]
    fn the_curve_of_a_textbook_comes_back() {
        let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23];
        let open = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
        let all: Vec<(u64, bool)> =
            ended.iter().map(|&weeks| (weeks, false)).chain(open.iter().map(|&weeks| (weeks, true))).collect();
        let survival = survival(&all);
        let curve = survival.curve();
        let at = |weeks: f64| curve.iter().rfind(|point| point.at <= weeks).map(|point| point.surviving).unwrap();
        let known =
            [(6.0, 0.857), (7.0, 0.807), (10.0, 0.753), (13.0, 0.690), (16.0, 0.627), (22.0, 0.538), (23.0, 0.448)];
        for (weeks, share) in known {
            assert!((at(weeks) - share).abs() < 5e-4, "S({weeks}) = {}", at(weeks));
        }
        let median = survival.quantile(0.5).unwrap();
        // The interval that R's survival package gives with conf.type = "log-log": 13 to no bound.
        assert_eq!((median.value, median.low, median.high), (Some(23.0), 13.0, None));
        assert_eq!(survival.quantile(0.9).unwrap().value, None);
        let greenwood = curve.iter().find(|point| point.at == 6.0).unwrap();
        assert!((greenwood.surviving_low - 0.620).abs() < 5e-4 && (greenwood.surviving_high - 0.952).abs() < 5e-4);
    }

    #[test]
    fn what_never_ended_is_longer_than_what_was_seen() {
        let open: Vec<(u64, bool)> = (0..40).map(|_| (1_000, true)).collect();
        let survival = survival(&open);
        assert_eq!(survival.quantile(0.5), Some(Quantile { value: None, low: 1_000.0, high: None }));
        assert_eq!(survival.restricted_mean(), Some(1_000.0));
    }

    #[test]
    fn a_tiny_part_that_ended_early_does_not_bound_the_median() {
        // A thousand lives of 1,000 bytes around 100, three bytes that ended at 1, and one life that goes on.
        let mut survival = Survival::default();
        survival.add(1, Weight::of_one(3), false);
        (0..1_000).for_each(|life| survival.add(80 + life % 40, Weight::of_one(1_000), false));
        survival.add(130, Weight::of_one(1_000), true);
        let median = survival.quantile(0.5).unwrap();
        assert!(median.low > 90.0 && median.high.is_some_and(|high| high < 110.0), "{median:?}");
    }

    #[test]
    fn the_share_that_lasts_is_bounded_by_what_was_seen() {
        let ended = survival(&[(10, false), (10, false), (30, false), (40, false)]);
        let bounds = |survival: &Survival, duration| survival.lasting(duration).map(|share| (share.low, share.high));
        assert_eq!(bounds(&ended, 10.0), Some((1.0, 1.0)), "at least so long");
        assert_eq!(bounds(&ended, 20.0), Some((0.5, 0.5)));
        assert!(!ended.lasting(20.0).unwrap().is_surely_below(0.9), "four lives say little");
        let open = survival(&vec![(100, true); 500]);
        assert_eq!(bounds(&open, 100.0), Some((1.0, 1.0)));
        assert_eq!(bounds(&open, 101.0), Some((0.0, 1.0)), "nobody looked for so long");
        assert_eq!(Survival::default().lasting(1.0), None);
    }

    #[test]
    fn a_share_that_is_met_exactly_is_met() {
        for lives in 2..40 {
            let ended = (1..=lives).map(|duration| (duration * 1_000, false));
            let open = (0..lives).map(|_| (1_000_000, true));
            let survival = survival(&ended.chain(open).collect::<Vec<_>>());
            let median = survival.quantile(0.5).unwrap().value;
            assert!(
                median.is_some_and(|median| (median / (lives * 1_000) as f64 - 1.0).abs() < 0.01),
                "{lives}: {median:?}"
            );
        }
    }

    #[test]
    fn what_was_last_seen_before_another_ended_is_not_at_risk_then() {
        // 2.99 and 3.00 are in one bucket; when the second ended, the first was not watched any more.
        let survival = survival(&[(3_000, false), (2_990, true)]);
        assert_eq!(survival.quantile(0.99).unwrap().value, Some(3_000.0));
    }

    #[test]
    fn a_bucket_of_many_open_lives_does_not_end_the_curve() {
        // All lie in one bucket of 0.8 %: a few end in the midst of many that are left open.
        let mut survival = Survival::default();
        (0..1_000).for_each(|life| survival.add(10_000_000 + life * 20, Weight::of_one(1), true));
        (0..20).for_each(|life| survival.add(10_010_000 + life * 10, Weight::of_one(1), false));
        (0..100).for_each(|_| survival.add(20_000_000, Weight::of_one(1), true));
        let last = survival.curve().last().map(|point| point.surviving).unwrap();
        // By hand: about 500 of the thousand are left when the twenty end.
        assert!((last - (1.0 - 20.0 / 620.0)).abs() < 0.005, "{last}");
        assert!(survival.curve().is_sorted_by(|left, right| left.at <= right.at));
    }

    #[test]
    fn few_lives_at_risk_bound_little() {
        // Thirty were followed for 10, one of them for 1,000: half of them may last hardly longer than 10.
        let mut durations = vec![(10, true); 29];
        durations.push((1_000, true));
        assert_eq!(survival(&durations).quantile(0.5), Some(Quantile { value: None, low: 10.0, high: None }));
    }

    #[test]
    fn parts_add_up_and_weights_count_as_so_many_lives_at_most() {
        let (mut left, right) = (survival(&[(3, false), (9, true)]), survival(&[(5, false), (7, false)]));
        left.merge(&right);
        let whole = survival(&[(3, false), (5, false), (7, false), (9, true)]);
        assert_eq!((left.quantile(0.5), left.restricted_mean()), (whole.quantile(0.5), whole.restricted_mean()));
        let mut heavy = Survival::default();
        [(3, false), (5, false), (7, false), (9, true)]
            .iter()
            .for_each(|&(at, is_open)| heavy.add(at, Weight::of_one(1_000), is_open));
        assert_eq!(heavy.quantile(0.5), whole.quantile(0.5), "a thousand bytes with one life are one life");
    }
}
