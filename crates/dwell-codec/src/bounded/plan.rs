//! Which steps a tensor is rounded to, chosen by a sample.

use super::quantise::{Chunk, Grid};
use super::source::{CHUNK, Source, Work};

/// Runs of elements that are looked at. Short ones from all over the tensor: rows differ in scale, and so do channels.
const SAMPLE_RUNS: usize = 64;
const SAMPLE_RUN_LEN: usize = 64;

/// Step numbers that have a symbol; one more symbol says that an element is kept exactly.
pub(super) const SYMBOLS: u32 = 255;

/// The most bits of a step number that are stored beside its symbol.
pub(super) const MAX_LOW_BITS: u32 = 16;

/// Part of the lossless size that a plan must stay below.
const WORTH: f64 = 0.75;

/// How steps are numbered in a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// The distance between two steps.
    pub(super) step: f64,
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
}

impl<W: Work> Sample<W> {
    pub(super) fn of<S: Source<Work = W>>(raw: &[u8]) -> Self {
        let elements = raw.len() / S::BYTES;
        let runs = SAMPLE_RUNS.min(elements.div_ceil(SAMPLE_RUN_LEN));
        let mut values = Vec::with_capacity(runs * SAMPLE_RUN_LEN);
        for run in 0..runs {
            let start = elements * run / runs;
            let length = SAMPLE_RUN_LEN.min(elements - start);
            let at = values.len();
            values.resize(at + length, W::default());
            S::load(&raw[start * S::BYTES..][..length * S::BYTES], &mut values[at..]);
        }
        Self { values }
    }

    /// The mean squared error of the sample with this step.
    pub(super) fn mse<S: Source<Work = W>>(&self, step: f64) -> Option<f64> {
        let (steps, squares) = self.quantised::<S>(Grid::new(step, step)?);
        Some(squares / (steps.len() as f64).max(1.0))
    }

    /// The steps of all elements that have one, and the sum of their squared errors.
    fn quantised<S: Source<Work = W>>(&self, grid: Grid<W>) -> (Vec<i32>, f64) {
        let mut steps = Vec::with_capacity(self.values.len());
        let mut squares = 0.0;
        let mut chunk = Chunk::new();
        for values in self.values.chunks(CHUNK) {
            chunk.values[..values.len()].copy_from_slice(values);
            chunk.quantise::<S>(grid);
            let held =
                chunk.steps.iter().zip(&chunk.errors).take(values.len()).filter(|(_, error)| **error <= grid.limit);
            for (&step, error) in held {
                steps.push(step);
                squares += error.to_f64() * error.to_f64();
            }
        }
        (steps, squares)
    }

    /// The best numbering of steps and its bits per element; `None` where elements as they are would be better.
    pub(super) fn plan<S: Source<Work = W>>(&self, step: f64, limit: f64) -> Option<(Plan, f64)> {
        let (mut steps, _) = self.quantised::<S>(Grid::new(step, limit)?);
        let (low, high) = middle_ends(&mut steps)?;
        let element_bits = 8.0 * S::BYTES as f64;
        let mut best: Option<(Plan, f64)> = None;
        for low_bits in 0..=MAX_LOW_BITS {
            let covered = i64::from(SYMBOLS) << low_bits;
            let plan = Plan { step, first: i32::try_from((low + high - covered) / 2).ok()?, low_bits };
            let bits = bits_per_element(&steps, &plan, self.values.len(), element_bits);
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
