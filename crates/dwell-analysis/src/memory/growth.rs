//! How memory grew with tokens: along a line, or in blocks.

use serde::{Deserialize, Serialize};

use super::regression::{Point, robust_line};
use super::series::{MemoryKind, Series};
use super::token_times::Counts;

dwell_events::choices! {
    /// How memory grew.
    GrowthShape {
        /// About the same with every token, or not at all.
        Steady = "steady",
        /// In equal blocks, with nothing between them.
        Blocks = "blocks",
        /// Once: where the next block would come is not known.
        OneBlock = "one_block",
    }
}

/// How memory grew with tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Which memory.
    pub kind: MemoryKind,
    /// Bytes per token.
    pub bytes_per_token: f64,
    /// Lower end of the 95 % confidence interval; for blocks, of what the time between samples allows.
    pub low_bytes_per_token: f64,
    /// Upper end.
    pub high_bytes_per_token: f64,
    /// Tokens between the first and the last sample.
    pub tokens: f64,
    /// Bytes that the last sample has more than the first.
    pub bytes: f64,
    /// Samples.
    pub samples: u64,
    /// Typical distance of a sample from the line.
    pub noise_bytes: f64,
    /// How it grew.
    pub shape: GrowthShape,
    /// Size of a block.
    pub block_bytes: Option<f64>,
    /// Tokens from one block to the next.
    pub block_tokens: Option<f64>,
    /// Bytes per token over the later half of the samples; none with too few of them.
    #[serde(default)]
    pub late_bytes_per_token: Option<f64>,
}

/// Fewer samples say nothing of growth.
pub(super) const SAMPLES_MIN: usize = 8;
/// Nor do fewer tokens between the first and the last.
pub(super) const TOKENS_MIN: f64 = 8.0;

/// Memory over the number of tokens, taken at each sample between the first and the last token.
pub(super) fn growth(kind: MemoryKind, series: &Series, counts: &Counts) -> Option<Growth> {
    let (first_ns, last_ns) = counts.span()?;
    let samples = series.between(first_ns, last_ns).iter();
    let points: Vec<Point> =
        samples.filter_map(|&(time_ns, bytes)| Some(Point { x: counts.at(time_ns)?, y: bytes as f64 })).collect();
    growth_of_points(kind, &points)
}

/// Growth through points in order of `x`; none with too few of them.
pub(super) fn growth_of_points(kind: MemoryKind, points: &[Point]) -> Option<Growth> {
    let (first, last) = (points.first()?, points.last()?);
    let tokens = last.x - first.x;
    if points.len() < SAMPLES_MIN || tokens < TOKENS_MIN {
        return None;
    }
    let line = robust_line(points)?;
    let steady = Growth {
        kind,
        bytes_per_token: line.slope,
        low_bytes_per_token: line.low,
        high_bytes_per_token: line.high,
        tokens,
        bytes: last.y - first.y,
        samples: points.len() as u64,
        noise_bytes: line.noise,
        shape: GrowthShape::Steady,
        block_bytes: None,
        block_tokens: None,
        late_bytes_per_token: robust_line(&points[points.len() / 2..]).map(|line| line.slope),
    };
    Some(in_blocks(&without_spikes(points), steady).unwrap_or(steady))
}

/// A sample that differs from both neighbours becomes their median: an allocation that was given back at once.
fn without_spikes(points: &[Point]) -> Vec<Point> {
    let mut smooth = points.to_vec();
    for (place, window) in points.windows(3).enumerate() {
        let [before, here, after] = [window[0].y, window[1].y, window[2].y];
        smooth[place + 1].y = before.max(after).min(before.min(after).max(here));
    }
    smooth
}

/// A rise from one level to the next.
struct Jump {
    /// Between the samples before and after.
    at: f64,
    /// Half the distance of the two.
    reach: f64,
    bytes: f64,
    /// Samples that it took.
    samples: usize,
}

/// Share of the highest rise between two samples below which memory counts as level.
const LEVEL_SHARE: f64 = 1.0 / 16.0;
/// Share of all growth that must lie in jumps.
const JUMPS_SHARE: f64 = 0.9;
/// Samples at a level for each that rises, at least: a line is no staircase.
const LEVEL_SAMPLES: usize = 2;

fn in_blocks(points: &[Point], steady: Growth) -> Option<Growth> {
    let jumps = jumps(points);
    let risen: f64 = jumps.iter().map(|jump| jump.bytes).sum();
    let rising: usize = jumps.iter().map(|jump| jump.samples).sum();
    let grown = points.last()?.y - points.first()?.y;
    let is_staircase = grown > 0.0
        && (JUMPS_SHARE * grown..=grown / JUMPS_SHARE).contains(&risen)
        && rising * (1 + LEVEL_SAMPLES) <= points.len();
    match jumps.as_slice() {
        [jump] if is_staircase => {
            Some(Growth { shape: GrowthShape::OneBlock, block_bytes: Some(jump.bytes), ..steady })
        }
        [first, .., last] if is_staircase => staircase(&jumps, last.at - first.at, first.reach + last.reach, steady),
        _ => None,
    }
}

/// Every block after the first came when the tokens since the block before had filled that.
fn staircase(jumps: &[Jump], tokens: f64, reach: f64, steady: Growth) -> Option<Growth> {
    let bytes: f64 = jumps[1..].iter().map(|jump| jump.bytes).sum();
    (reach < tokens / 2.0).then(|| Growth {
        bytes_per_token: bytes / tokens,
        low_bytes_per_token: bytes / (tokens + reach),
        high_bytes_per_token: bytes / (tokens - reach),
        shape: GrowthShape::Blocks,
        block_bytes: Some(bytes / (jumps.len() - 1) as f64),
        block_tokens: Some(tokens / (jumps.len() - 1) as f64),
        ..steady
    })
}

/// Rises that are far above all others. Samples that rise one after the other saw one block being filled.
fn jumps(points: &[Point]) -> Vec<Jump> {
    let rises: Vec<f64> = points.windows(2).map(|pair| pair[1].y - pair[0].y).collect();
    let highest = rises.iter().copied().fold(0.0, f64::max);
    let is_level = |rise: &f64| *rise <= highest * LEVEL_SHARE;
    let mut jumps = Vec::new();
    let mut place = 0;
    while place < rises.len() {
        let length = rises[place..].iter().take_while(|rise| !is_level(rise)).count();
        if length > 0 {
            let (before, after) = (points[place], points[place + length]);
            let (at, reach) = ((before.x + after.x) / 2.0, (after.x - before.x) / 2.0);
            jumps.push(Jump { at, reach, bytes: after.y - before.y, samples: length });
        }
        place += length.max(1);
    }
    let largest = jumps.iter().map(|jump| jump.bytes).fold(0.0, f64::max);
    jumps.retain(|jump| jump.bytes >= largest / 2.0);
    jumps
}
