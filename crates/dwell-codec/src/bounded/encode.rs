//! Elements to a payload.

use super::loss::{Loss, VectorLoss};
use super::plan::{Plan, Sample};
use super::quantise::Chunk;
use super::scale::{HAIR, Rule, Scale, aim};
use super::source::{CHUNK, Source};
use super::spread::Spread;
use super::vectors::{block_len, vector_len};
use super::{BoundedScratch, VERSION, for_exact};
use crate::codec::Bound;
use crate::plane::encode_plane;

/// What a lossy payload loses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lossy {
    /// The bound as an absolute figure; of bounds that are parts of something, the largest of any vector.
    pub(crate) bound: f64,
    /// The largest error.
    pub(crate) max_error: f64,
    /// The mean squared error of finite elements.
    pub(crate) mse: f64,
    /// The smallest cosine between a vector and what becomes of it.
    pub(crate) min_cosine: f64,
}

/// Attempts at a mean squared error before the elements are kept as they are.
const ATTEMPTS: u32 = 6;

/// The shortest vectors that get steps of their own; the scale of shorter ones would take more than the steps save.
const LEAST_VECTOR: usize = 8;

/// One tensor that is to be encoded.
#[derive(Clone, Copy)]
struct Tensor<'a> {
    raw: &'a [u8],
    vector_len: usize,
}

pub(super) fn encode<S: Source>(
    bound: Bound,
    row_len: usize,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Lossy> {
    let tensor = Tensor { raw, vector_len: vector_len(row_len) };
    let sample = |spread_of: fn(&[u8]) -> Spread| Sample::of::<S>(tensor.vector_len, raw, spread_of);
    let (loss, bound) = match bound {
        Bound::Absolute(limit) => {
            let sample = sample(|_| Spread::default());
            let widest = 2.0 * limit * HAIR;
            let rule = |is_even| Rule::Same { step: if is_even { power_below(widest) } else { widest }, limit };
            (within_error::<S>(rule, &sample, tensor, scratch, out)?, limit)
        }
        Bound::Mse(limit) => {
            let sample = sample(|_| Spread::default());
            (within_mse::<S>(limit, &sample, tensor, scratch, out)?, limit)
        }
        Bound::Range(_) | Bound::RelativeMse(_) if tensor.vector_len < LEAST_VECTOR => return None,
        Bound::Range(part) => {
            let sample = sample(|vector| Spread::of::<S>(vector, false));
            let rule = |is_even| Rule::OfRange { part, is_even };
            let loss = within_error::<S>(rule, &sample, tensor, scratch, out)?;
            (loss, loss.bound)
        }
        Bound::RelativeMse(part) => {
            let sample = sample(|vector| Spread::of::<S>(vector, true));
            let mse_of = |spread: &Spread| aim(spread.kept as f64) * part * spread.variance;
            let rule = |width| Rule::OfVariance { part, width };
            let rule = rule(widest::<S>(&sample, rule, mse_of));
            let loss = write::<S>(&rule, &sample.plan::<S>(&rule)?.0, tensor, scratch, out)?;
            (loss, loss.bound)
        }
    };
    let mse = loss.squares / loss.finite as f64;
    let Loss { max_error, min_cosine, .. } = loss;
    mse.is_finite().then_some(Lossy { bound, max_error, mse, min_cosine })
}

/// The largest power of two that is not above a positive number.
fn power_below(number: f64) -> f64 {
    number.log2().floor().exp2()
}

/// No error above what the rule allows. The rule is asked for steps of any length, or for powers of two.
fn within_error<S: Source>(
    rule: impl Fn(bool) -> Rule,
    sample: &Sample<S::Work>,
    tensor: Tensor<'_>,
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let planned = |is_even| sample.plan::<S>(&rule(is_even)).map(|(plan, bits)| (rule(is_even), plan, bits));
    let mut best = planned(false);
    if S::IS_COARSE {
        // Steps that are a power of two are numbers of the type themselves, or its numbers are whole steps: rounding to
        // it breaks no bound then, and fewer elements must be kept exactly.
        let both = [best, planned(true)].into_iter().flatten();
        best = both.min_by(|(_, _, one), (_, _, other)| one.total_cmp(other));
    }
    let (rule, plan, _) = best?;
    write::<S>(&rule, &plan, tensor, scratch, out)
}

/// A mean squared error of at most `limit` over all elements.
fn within_mse<S: Source>(
    limit: f64,
    sample: &Sample<S::Work>,
    tensor: Tensor<'_>,
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let start = out.len();
    let aimed = limit * aim((tensor.raw.len() / S::BYTES) as f64);
    let even = (12.0 * aimed).sqrt();
    let rule = |step| Rule::Same { step, limit: step };
    let mut step = even * widest::<S>(sample, |width| rule(even * width), |_| aimed);
    for _ in 0..ATTEMPTS {
        let rule = rule(step);
        let loss = write::<S>(&rule, &sample.plan::<S>(&rule)?.0, tensor, scratch, out)?;
        let mse = loss.squares / loss.finite as f64;
        if mse <= limit {
            return Some(loss);
        }
        out.truncate(start);
        step *= (aimed / mse).sqrt();
    }
    None
}

/// How far the mean squared error of a sample may be from that of evenly spread errors by chance alone.
const CHANCE: f64 = 0.06;

/// How much wider steps may be than those whose evenly spread errors have the mean square aimed at. Errors are spread
/// evenly where steps are fine, and their mean square is then known better than a sample tells it. Where most values
/// lie within one step it is wider, but no more than four times: the sample need not have seen the far ones.
fn widest<S: Source>(
    sample: &Sample<S::Work>,
    rule: impl Fn(f64) -> Rule,
    mse_of: impl Fn(&Spread) -> f64 + Copy,
) -> f64 {
    let part_of = |width| sample.squares_part::<S>(&rule(width), mse_of);
    let mut part = part_of(1.0);
    let mut width = 1.0_f64;
    if (part - 1.0).abs() < CHANCE || !part.is_finite() {
        return width;
    }
    for _ in 0..4 {
        width = (width * part.max(1.0 / 64.0).recip().sqrt()).clamp(0.25, 4.0);
        part = part_of(width);
    }
    width
}

/// Appends the payload; `None` if more is kept exactly than the sample let expect and the elements themselves would be
/// smaller.
fn write<S: Source>(
    rule: &Rule,
    plan: &Plan,
    tensor: Tensor<'_>,
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Loss> {
    let Tensor { raw, vector_len } = tensor;
    out.push(VERSION);
    out.push(plan.low_bits as u8);
    out.extend(plan.first.to_le_bytes());
    out.extend(plan.unit.to_le_bytes());
    out.extend((vector_len as u32).to_le_bytes());
    let start = out.len();
    let mut loss = Loss::none();
    for block in raw.chunks(block_len(vector_len) * S::BYTES) {
        fill_planes::<S>(rule, plan, Tensor { raw: block, vector_len }, scratch, &mut loss)?;
        scratch.coded.clear();
        let low = &scratch.low[..plan.low_planes()];
        for plane in scratch.scales.iter().chain([&scratch.symbols]).chain(low) {
            encode_plane(plane, &mut scratch.stream, &mut scratch.coded);
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
    rule: &Rule,
    plan: &Plan,
    block: Tensor<'_>,
    scratch: &mut BoundedScratch,
    loss: &mut Loss,
) -> Option<()> {
    let vectors = block.raw.chunks(block.vector_len * S::BYTES);
    scratch.resize(block.raw.len() / S::BYTES, vectors.len(), plan.low_planes());
    scratch.exact.clear();
    let mut chunk = Chunk::new();
    for (index, vector) in vectors.enumerate() {
        let mut scale = rule.scale::<S>(vector);
        let (start, exact_start) = (index * block.vector_len, scratch.exact.len());
        let mut lost = fill_vector::<S>(&scale, plan, vector, start, &mut chunk, scratch);
        for attempt in 1.. {
            if lost.squares <= scale.squares_max {
                break;
            }
            scale = if attempt < ATTEMPTS { scale.narrowed(lost.squares) } else { Scale::exact() };
            scratch.exact.truncate(exact_start);
            lost = fill_vector::<S>(&scale, plan, vector, start, &mut chunk, scratch);
        }
        for (plane, byte) in scratch.scales.iter_mut().zip(scale.code.to_be_bytes()) {
            plane[index] = byte;
        }
        loss.add(&lost, scale.bound)?;
    }
    Some(())
}

/// The symbols, low bits and exact elements of a vector that begins at `start` of its block.
fn fill_vector<S: Source>(
    scale: &Scale<S::Work>,
    plan: &Plan,
    vector: &[u8],
    start: usize,
    chunk: &mut Chunk<S::Work>,
    scratch: &mut BoundedScratch,
) -> VectorLoss {
    let mut lost = VectorLoss::default();
    for (index, raw) in vector.chunks(CHUNK * S::BYTES).enumerate() {
        let start = start + index * CHUNK;
        let at = start..start + raw.len() / S::BYTES;
        chunk.load::<S>(raw);
        chunk.quantise::<S>(&scale.grid);
        chunk.number(plan, &scale.grid);
        lost.add(chunk.values(), chunk.errors(), scale.grid.inverse);
        let symbols = &mut scratch.symbols[at.clone()];
        for (symbol, &number) in symbols.iter_mut().zip(chunk.numbers()) {
            *symbol = (number >> plan.low_bits) as u8;
        }
        for_exact(symbols, |index| scratch.exact.extend_from_slice(&raw[index * S::BYTES..][..S::BYTES]));
        for (byte_index, plane) in scratch.low[..plan.low_planes()].iter_mut().enumerate() {
            let mask = (1_u32 << plan.low_bits) - 1;
            for (byte, &number) in plane[at.clone()].iter_mut().zip(chunk.numbers()) {
                *byte = ((number & mask) >> (8 * byte_index)) as u8;
            }
        }
    }
    lost
}
