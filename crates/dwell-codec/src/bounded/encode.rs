//! Elements to a payload.

use super::plan::{Plan, Sample};
use super::quantise::{Chunk, Grid, Loss};
use super::source::{CHUNK, Source, Work};
use super::spread::Spread;
use super::{BoundedScratch, VERSION, for_exact};
use crate::codec::Bound;
use crate::plane::{BLOCK_ELEMENTS, encode_plane};

/// What a lossy payload loses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lossy {
    /// The bound as an absolute figure.
    pub(crate) bound: f64,
    /// The largest error.
    pub(crate) max_error: f64,
    /// The mean squared error of finite elements.
    pub(crate) mse: f64,
}

/// Steps are this much shorter than twice the error they may have, so that rounding does not break it.
const HAIR: f64 = 1.0 - 1e-6;

/// Attempts at a mean squared error before the elements are kept as they are.
const ATTEMPTS: u32 = 6;

/// Part of a mean squared error that is aimed at, so that the first attempt is seldom above it.
const AIM: f64 = 0.985;

pub(super) fn encode<S: Source>(
    bound: Bound,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Lossy> {
    let spread = Spread::of::<S>(bound, raw);
    let figure = match bound {
        Bound::Absolute(limit) | Bound::Mse(limit) => limit,
        Bound::Range(part) => part * spread.range,
        Bound::RelativeMse(part) => part * spread.variance,
    };
    if spread.finite == 0 || !figure.is_normal() {
        return None;
    }
    let sample = Sample::of::<S>(raw);
    let loss = match bound {
        Bound::Absolute(_) | Bound::Range(_) => within_error::<S>(figure, &sample, raw, scratch, out),
        Bound::Mse(_) | Bound::RelativeMse(_) => within_mse::<S>(figure, &sample, spread.finite, raw, scratch, out),
    }?;
    let mse = loss.squares / spread.finite as f64;
    mse.is_finite().then_some(Lossy { bound: figure, max_error: loss.max_error, mse })
}

/// No error above `limit`.
fn within_error<S: Source>(
    limit: f64,
    sample: &Sample<S::Work>,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let widest = 2.0 * limit * HAIR;
    let mut best = sample.plan::<S>(widest, limit);
    if S::IS_COARSE {
        // Steps that are a power of two are numbers of the type themselves, or its numbers are whole steps: rounding to
        // it breaks no bound then, and fewer elements must be kept exactly.
        let even = sample.plan::<S>(widest.log2().floor().exp2(), limit);
        best = [best, even].into_iter().flatten().min_by(|(_, one), (_, other)| one.total_cmp(other));
    }
    write::<S>(&best?.0, limit, raw, scratch, out)
}

/// A mean squared error of at most `limit` over `finite` elements.
fn within_mse<S: Source>(
    limit: f64,
    sample: &Sample<S::Work>,
    finite: u64,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let start = out.len();
    let mut step = widest_step::<S>(limit, sample)?;
    for _ in 0..ATTEMPTS {
        let (plan, _) = sample.plan::<S>(step, step)?;
        let loss = write::<S>(&plan, step, raw, scratch, out)?;
        let mse = loss.squares / finite as f64;
        if mse <= limit {
            return Some(loss);
        }
        out.truncate(start);
        step *= (AIM * limit / mse).sqrt();
    }
    None
}

/// How far the mean squared error of a sample may be from that of evenly spread errors by chance alone.
const CHANCE: f64 = 0.06;

/// The step that gives the error aimed at. Errors are spread evenly where steps are fine, and their mean square is then
/// known better than a sample tells it. Where most values lie within one step it is wider, but no more than four times:
/// the sample need not have seen the far ones.
fn widest_step<S: Source>(limit: f64, sample: &Sample<S::Work>) -> Option<f64> {
    let aim = AIM * limit;
    let even = (12.0 * aim).sqrt();
    if (sample.mse::<S>(even)? / aim - 1.0).abs() < CHANCE {
        return Some(even);
    }
    let mut step = even;
    for _ in 0..4 {
        let mse = sample.mse::<S>(step)?.max(limit / 64.0);
        step = (step * (aim / mse).sqrt()).clamp(even / 4.0, even * 4.0);
    }
    Some(step)
}

/// Appends the payload; `None` for steps that values cannot be divided by, or if more is kept exactly than the sample
/// let expect and the elements themselves would be smaller.
fn write<S: Source>(
    plan: &Plan,
    limit: f64,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let grid = Grid::<S::Work>::new(plan.step, limit)?;
    // The step as the type has it, which is what a decoder computes with.
    let plan = Plan { step: grid.step.to_f64(), ..*plan };
    out.push(VERSION);
    out.push(plan.low_bits as u8);
    out.extend(plan.first.to_le_bytes());
    out.extend(plan.step.to_le_bytes());
    let start = out.len();
    let mut loss = Loss::default();
    for block in raw.chunks(BLOCK_ELEMENTS * S::BYTES) {
        fill_planes::<S>(grid, &plan, block, scratch, &mut loss);
        scratch.coded.clear();
        encode_plane(&scratch.symbols, &mut scratch.stream, &mut scratch.coded);
        for low in &scratch.low[..plan.low_planes()] {
            encode_plane(low, &mut scratch.stream, &mut scratch.coded);
        }
        if out.len() - start + scratch.coded.len() + scratch.exact.len() >= raw.len() {
            return None;
        }
        out.extend_from_slice(&scratch.coded);
        out.extend_from_slice(&scratch.exact);
    }
    Some(loss)
}

/// The planes and the exact elements of a block.
fn fill_planes<S: Source>(
    grid: Grid<S::Work>,
    plan: &Plan,
    block: &[u8],
    scratch: &mut BoundedScratch,
    loss: &mut Loss,
) {
    scratch.resize(block.len() / S::BYTES, plan.low_planes());
    scratch.exact.clear();
    let mut chunk = Chunk::new();
    for (index, raw) in block.chunks(CHUNK * S::BYTES).enumerate() {
        let at = index * CHUNK..index * CHUNK + raw.len() / S::BYTES;
        chunk.load::<S>(raw);
        chunk.quantise::<S>(grid);
        chunk.number(plan, grid.limit);
        loss.add(&chunk.errors);
        let symbols = &mut scratch.symbols[at.clone()];
        for (symbol, &number) in symbols.iter_mut().zip(&chunk.numbers) {
            *symbol = (number >> plan.low_bits) as u8;
        }
        for_exact(symbols, |index| scratch.exact.extend_from_slice(&raw[index * S::BYTES..][..S::BYTES]));
        for (byte_index, plane) in scratch.low[..plan.low_planes()].iter_mut().enumerate() {
            let mask = (1_u32 << plan.low_bits) - 1;
            for (byte, &number) in plane[at.clone()].iter_mut().zip(&chunk.numbers) {
                *byte = ((number & mask) >> (8 * byte_index)) as u8;
            }
        }
    }
}
