//! How steps are numbered, chosen by a sample.

use super::quantise::Chunk;
use super::scale::Rule;
use super::source::{CHUNK, Source, Work};
use super::spread::Spread;

/// Elements that are looked at, about, and the vectors that they are taken from where there are so many.
const SAMPLE_ELEMENTS: usize = 4096;
const SAMPLE_VECTORS: usize = 32;

/// Step numbers that have a symbol; one more symbol says that an element is kept exactly.
pub(super) const SYMBOLS: u32 = 255;

/// The most bits of a step number that are stored beside its symbol.
pub(super) const MAX_LOW_BITS: u32 = 16;

/// Part of the lossless size that a plan must stay below.
const WORTH: f64 = 0.75;

/// How steps are numbered in a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// The distance between two steps, where a vector has no scale of its own.
    pub(super) unit: f64,
    /// The number of the first step that has a symbol.
    pub(super) first: i32,
    /// Bits of a number below its symbol.
    pub(super) low_bits: u32,
}

impl Plan {
    /// Planes of bytes that the low bits take.
    pub(super) fn low_planes(&self) -> usize {
        self.low_bits.div_ceil(8) as usize
    }
}

/// Some of a tensor's values.
pub(super) struct Sample<W> {
    values: Vec<W>,
    /// For each vector, its number of values and their spread.
    runs: Vec<(usize, Spread)>,
    vector_len: usize,
}

impl<W: Work> Sample<W> {
    /// A run of values of some vectors. `spread_of` looks at a whole vector.
    pub(super) fn of<S: Source<Work = W>>(vector_len: usize, raw: &[u8], spread_of: impl Fn(&[u8]) -> Spread) -> Self {
        let vector_bytes = vector_len * S::BYTES;
        let vectors = raw.len().div_ceil(vector_bytes);
        let sampled = vectors.min(SAMPLE_VECTORS.max(SAMPLE_ELEMENTS / vector_len));
        let mut sample = Self { values: Vec::with_capacity(SAMPLE_ELEMENTS), runs: Vec::new(), vector_len };
        for index in 0..sampled {
            let vector = &raw[vectors * index / sampled * vector_bytes..];
            let vector = &vector[..vector.len().min(vector_bytes)];
            sample.add::<S>(vector, SAMPLE_ELEMENTS / sampled, index as f64 / sampled as f64, spread_of(vector));
        }
        sample
    }

    /// Adds a run from some place of a vector: channels differ in scale too.
    fn add<S: Source<Work = W>>(&mut self, vector: &[u8], most: usize, place: f64, spread: Spread) {
        let elements = vector.len() / S::BYTES;
        let length = elements.min(most);
        let start = ((elements - length) as f64 * place) as usize;
        let mut values = [W::default(); CHUNK];
        for chunk in vector[start * S::BYTES..][..length * S::BYTES].chunks(CHUNK * S::BYTES) {
            let values = &mut values[..chunk.len() / S::BYTES];
            S::load(chunk, values);
            self.values.extend_from_slice(values);
        }
        self.runs.push((length, spread));
    }

    /// The squares of all errors as part of what they may come to, by a mean squared error for each vector.
    pub(super) fn squares_part<S: Source<Work = W>>(&self, rule: &Rule, mse_of: impl Fn(&Spread) -> f64) -> f64 {
        let allowed: f64 = self.runs.iter().map(|(length, spread)| mse_of(spread) * *length as f64).sum();
        self.quantised::<S>(rule).1 / allowed
    }

    /// The steps of all elements that have one, and the sum of their squared errors.
    fn quantised<S: Source<Work = W>>(&self, rule: &Rule) -> (Vec<i32>, f64) {
        let mut steps = Vec::with_capacity(self.values.len());
        let mut squares = 0.0;
        let mut chunk = Chunk::new();
        let mut rest = self.values.as_slice();
        for (length, spread) in &self.runs {
            let (run, others) = rest.split_at(*length);
            rest = others;
            let grid = rule.scale_by(spread).grid;
            for values in run.chunks(CHUNK) {
                chunk.take(values);
                chunk.quantise::<S>(&grid);
                for (step, error) in chunk.near(&grid) {
                    steps.push(step);
                    squares += error.to_f64() * error.to_f64();
                }
            }
        }
        (steps, squares)
    }

    /// The best numbering of steps and its bits per element; `None` where elements as they are would be better.
    pub(super) fn plan<S: Source<Work = W>>(&self, rule: &Rule) -> Option<(Plan, f64)> {
        let (mut steps, _) = self.quantised::<S>(rule);
        let (low, high) = middle_ends(&mut steps)?;
        let element_bits = 8.0 * S::BYTES as f64;
        let scale_bits = rule.scale_bits() / self.vector_len as f64;
        let mut best: Option<(Plan, f64)> = None;
        for low_bits in 0..=MAX_LOW_BITS {
            let covered = i64::from(SYMBOLS) << low_bits;
            let first = i32::try_from((low + high - covered) / 2).ok()?;
            let plan = Plan { unit: rule.unit(), first, low_bits };
            let bits = scale_bits + bits_per_element(&steps, &plan, self.values.len(), element_bits);
            if best.is_none_or(|(_, least)| bits < least) {
                best = Some((plan, bits));
            } else if covered > high - low {
                break;
            }
        }
        best.filter(|(_, bits)| *bits < WORTH * element_bits)
    }
}

/// Between which steps most lie; symbols are given to the middle of them. Changes their order.
fn middle_ends(steps: &mut [i32]) -> Option<(i64, i64)> {
    let trimmed = steps.len() / 64;
    let last = steps.len().checked_sub(1 + trimmed)?;
    let high = *steps.select_nth_unstable(last).1;
    let low = *steps[..=last].select_nth_unstable(trimmed).1;
    Some((low.into(), high.into()))
}

/// Bits of an element: the entropy of symbols, the low bits, and the elements that are kept exactly.
fn bits_per_element(steps: &[i32], plan: &Plan, elements: usize, element_bits: f64) -> f64 {
    let mut counts = [0_u32; 256];
    for &step in steps {
        let symbol = (step.wrapping_sub(plan.first) as u32 >> plan.low_bits).min(SYMBOLS);
        counts[symbol as usize] += 1;
    }
    counts[SYMBOLS as usize] += (elements - steps.len()) as u32;
    let exact = f64::from(counts[SYMBOLS as usize]);
    let low = f64::from(plan.low_bits) * (elements as f64);
    (crate::huffman::entropy_bits(&counts) + low + exact * element_bits) / elements as f64
}
