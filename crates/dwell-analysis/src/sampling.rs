//! What a trace can say that holds only some of the accesses.
//!
//! `docs/metrics/sampling.md` derives the bounds.

use serde::{Deserialize, Serialize};

use crate::Basis;
use crate::metrics::NS_PER_S;
use crate::metrics::retention::{LifeTally, Retention};
use crate::metrics::write_once::{StoredBytes, WriteOnce};
use crate::reader::Access;

/// What a figure is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimate {
    /// Every access was seen: the figure is that of the trace.
    Exact,
    /// Every access was seen, but lives went on when the trace ended; the bounds are an interval of 95 %.
    Censored,
    /// Accesses that far apart have the same time in the trace: the truth lies between none and the resolution.
    BelowResolution,
    /// Only some accesses were seen; the truth lies between the bounds.
    Bounded,
    /// Nothing can be said.
    NotEstimable,
}

impl Estimate {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Estimate::Exact => "exact",
            Estimate::Censored => "censored",
            Estimate::BelowResolution => "below_resolution",
            Estimate::Bounded => "bounded",
            Estimate::NotEstimable => "not_estimable",
        }
    }
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// Rows do not say how many accesses they stand for.
    UnknownPeriod,
    /// Samples were taken at a fixed distance, so the sampler may have run in step with the program.
    FixedPeriod,
    /// Too few samples, of the memory or at all.
    Sparse,
    /// Memory was stored to again, or may have been.
    Rewritten,
}

impl Obstacle {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Obstacle::UnknownPeriod => "unknown_period",
            Obstacle::FixedPeriod => "fixed_period",
            Obstacle::Sparse => "sparse",
            Obstacle::Rewritten => "rewritten",
        }
    }
}

/// Follows how samples were taken. Needs all rows in order: of the parts of a trace, the first alone concludes it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SamplerTally {
    rows: u64,
    has_unknown_period: bool,
    last_period: u32,
    /// Rows whose period is not that of the sample before.
    changes: u64,
    /// Sum of the periods of the rows since the last full block.
    block_periods: u64,
    /// The largest sum of a full block.
    largest_block_periods: u64,
    largest_row_bytes: u64,
}

impl SamplerTally {
    /// Samples over which the sampler's rate is averaged.
    const BLOCK_ROWS: u64 = 64;

    /// One row in this many has to differ in its period from the one before.
    const CHANGES_LEAST_SHARE: u64 = 4;

    /// Takes a row that is a sample.
    pub(crate) fn follow(&mut self, access: &Access) {
        self.rows += 1;
        self.has_unknown_period |= access.period == 0;
        self.changes += u64::from(access.period != self.last_period);
        self.last_period = access.period;
        self.block_periods += u64::from(access.period);
        if self.rows.is_multiple_of(Self::BLOCK_ROWS) {
            self.largest_block_periods = self.largest_block_periods.max(self.block_periods);
            self.block_periods = 0;
        }
        self.largest_row_bytes = self.largest_row_bytes.max(access.size_bytes);
    }

    /// Adds the samples of another run. Blocks of samples do not reach from one run into another.
    pub(crate) fn merge(&mut self, other: &SamplerTally) {
        self.rows = self.rows.saturating_add(other.rows);
        self.has_unknown_period |= other.has_unknown_period;
        self.changes = self.changes.saturating_add(other.changes);
        self.largest_block_periods = self.largest_block_periods.max(other.largest_block_periods);
        self.largest_row_bytes = self.largest_row_bytes.max(other.largest_row_bytes);
    }

    pub(crate) fn is_sampled(&self) -> bool {
        self.rows > 0
    }

    /// How samples were taken; an obstacle if nothing can be said from them.
    pub(crate) fn sampler(&self) -> Result<Sampler, Obstacle> {
        if self.has_unknown_period {
            Err(Obstacle::UnknownPeriod)
        } else if self.changes.saturating_mul(Self::CHANGES_LEAST_SHARE) < self.rows {
            Err(Obstacle::FixedPeriod)
        } else if self.largest_block_periods == 0 {
            Err(Obstacle::Sparse)
        } else {
            Ok(Sampler {
                accesses_per_row: self.largest_block_periods as f64 / Self::BLOCK_ROWS as f64,
                unit_bytes: self.largest_row_bytes.max(1) as f64,
            })
        }
    }
}

/// A sampler that is not in step with the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    /// Accesses that a row stands for, where the sampler was slowest.
    accesses_per_row: f64,
    /// Most bytes that are seen or not seen together.
    unit_bytes: f64,
}

/// Largest share of lives, by the lives that are seen, that unseen stores may have added.
const MOST_UNSEEN_LIVES: f64 = 0.5;

/// Samples that nine in ten lives need.
const LEAST_SAMPLES_OF_A_LIFE: f64 = 8.0;

/// Share of the lives that may have fewer samples.
const SPARSE_LIVES: f64 = 0.1;

impl Sampler {
    /// The most bytes that there can be if each is seen with at least the sampler's chance, and `seen` were.
    ///
    /// By Chernoff's bound; it fails for one trace in a million.
    fn most_bytes(&self, seen: u64) -> f64 {
        let doubt = 1e6f64.ln();
        let seen = seen as f64 / self.unit_bytes;
        let most = seen + doubt + (2.0 * seen * doubt + doubt * doubt).sqrt();
        most * self.unit_bytes * self.accesses_per_row
    }

    /// What was seen stored twice is not write-once; what was seen stored once, or only read, may be.
    pub(crate) fn write_once(&self, stored: &StoredBytes, basis: Basis) -> WriteOnce {
        let most_once =
            self.most_bytes(stored.seen.saturating_sub(stored.more_than_once).saturating_add(stored.inferred));
        WriteOnce {
            basis,
            estimate: Some(Estimate::Bounded),
            low: Some(0.0),
            high: Some(most_once / (most_once + stored.more_than_once as f64)),
            ..WriteOnce::default()
        }
    }

    /// Lives can be followed if hardly any store was missed and their ends are close to their last samples.
    pub(crate) fn retention(&self, lives: &LifeTally, basis: Basis) -> Retention {
        let unseen_lives = self.most_bytes(lives.ended_bytes()) / lives.open_bytes() as f64;
        let samples = lives.samples_of_open_lives(SPARSE_LIVES);
        match samples {
            _ if unseen_lives.is_nan() || unseen_lives > MOST_UNSEEN_LIVES => {
                not_estimable_retention(Obstacle::Rewritten, basis)
            }
            Some(samples) if samples >= LEAST_SAMPLES_OF_A_LIFE => bounded(lives, unseen_lives, samples, basis),
            _ => not_estimable_retention(Obstacle::Sparse, basis),
        }
    }
}

fn bounded(lives: &LifeTally, unseen_lives: f64, samples: f64, basis: Basis) -> Retention {
    // A life runs on before its first and after its last sample for about the time between two of them.
    let unseen_share = 2.0 / samples;
    let seconds = |share: f64| lives.seen_ns(share.clamp(0.0, 1.0)).map(|ns| ns / NS_PER_S);
    let low = |share: f64| {
        let share = share * (1.0 + unseen_lives) - 2.0 * unseen_lives;
        if share > 0.0 { seconds(share) } else { Some(0.0) }
    };
    let high =
        |share: f64| seconds(share * (1.0 + unseen_lives) + SPARSE_LIVES).map(|seconds| seconds / (1.0 - unseen_share));
    Retention {
        basis,
        estimate: Some(Estimate::Bounded),
        p50_s: seconds(0.5),
        p50_low_s: low(0.5),
        p50_high_s: high(0.5),
        p99_s: seconds(0.99),
        p99_low_s: low(0.99),
        p99_high_s: high(0.99),
        ..Retention::default()
    }
}

/// No figure, and why.
pub(crate) fn not_estimable_retention(obstacle: Obstacle, basis: Basis) -> Retention {
    Retention { basis, estimate: Some(Estimate::NotEstimable), obstacle: Some(obstacle), ..Retention::default() }
}

/// No figure.
pub(crate) fn not_estimable_write_once(basis: Basis) -> WriteOnce {
    WriteOnce { basis, estimate: Some(Estimate::NotEstimable), ..WriteOnce::default() }
}
