//! The usual upper byte of each channel.
//!
//! A channel is a position in a row: in a residual stream some are larger than others by orders of magnitude, in every
//! row. Taken off, the upper bytes of all channels look alike and need fewer bits.

use crate::float::split;
use crate::huffman::{count, entropy_bits};

/// What an upper byte that is as usual becomes, so that smaller and larger ones lie beside it.
const CENTRE: u8 = 128;

/// Rows that the usual byte is taken from.
const SAMPLE_ROWS: usize = 32;

/// Rows from which on the references are worth their bytes.
const LEAST_ROWS: usize = 32;

/// Longer rows would not stay in the cache.
const LONGEST_ROW: usize = 1 << 16;

/// One reference for each channel; none where channels are alike.
#[derive(Default)]
pub(crate) struct References(Vec<u8>);

impl References {
    /// References, if a sample of rows says that they pay.
    pub(crate) fn choose(width: usize, row_len: usize, raw: &[u8]) -> Self {
        let rows = raw.len() / width / row_len.max(1);
        if !(2..=LONGEST_ROW).contains(&row_len) || rows < LEAST_ROWS {
            return Self::default();
        }
        let sample = sample_rows(width, row_len, rows, raw);
        let references = Self(usual_bytes(row_len, &sample));
        let mut relative = sample.clone();
        references.take_off(0, &mut relative);
        // The sample has its own references' fit: each costs 8 bits in all rows together, and hides about half a bit a row.
        let saved_bits = (entropy_bits(&count(&sample)) - entropy_bits(&count(&relative))) / sample.len() as f64;
        let cost_bits = 8.0 / rows as f64;
        if saved_bits > 2.0 * cost_bits && saved_bits > LEAST_SAVED_BITS { references } else { Self::default() }
    }

    /// Appends the number of references and themselves.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.0.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.0);
    }

    /// Takes references from the front of `payload`; `None` if there are more than elements.
    pub(crate) fn read(payload: &mut &[u8], elements: usize) -> Option<Self> {
        let (length, rest) = payload.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|&length| length <= elements)?;
        let (references, rest) = rest.split_at_checked(length)?;
        *payload = rest;
        Some(Self(references.to_vec()))
    }

    /// Makes the upper bytes of elements from `start` on relative.
    pub(crate) fn take_off(&self, start: usize, plane: &mut [u8]) {
        self.for_rows(start, plane, |byte, reference| byte.wrapping_sub(reference).wrapping_add(CENTRE));
    }

    /// Undoes [`Self::take_off`].
    pub(crate) fn put_back(&self, start: usize, plane: &mut [u8]) {
        self.for_rows(start, plane, |byte, reference| byte.wrapping_add(reference).wrapping_sub(CENTRE));
    }

    #[inline(always)]
    fn for_rows(&self, start: usize, mut plane: &mut [u8], change: impl Fn(u8, u8) -> u8) {
        if self.0.is_empty() {
            return;
        }
        let mut channel = start % self.0.len();
        while !plane.is_empty() {
            let references = &self.0[channel..];
            let (row, rest) = plane.split_at_mut(references.len().min(plane.len()));
            for (byte, &reference) in row.iter_mut().zip(references) {
                *byte = change(*byte, reference);
            }
            (plane, channel) = (rest, 0);
        }
    }
}

/// Saved bits of an element below which decoding would only become slower.
const LEAST_SAVED_BITS: f64 = 0.03;

/// The upper bytes of some rows from all over the tensor.
fn sample_rows(width: usize, row_len: usize, rows: usize, raw: &[u8]) -> Vec<u8> {
    let mut sample = vec![0; SAMPLE_ROWS * row_len];
    for (index, bytes) in sample.chunks_exact_mut(row_len).enumerate() {
        let row = index * rows / SAMPLE_ROWS;
        split(width, width - 1, &raw[row * row_len * width..][..row_len * width], bytes);
    }
    sample
}

/// The mean byte of every channel.
fn usual_bytes(row_len: usize, sample: &[u8]) -> Vec<u8> {
    let mut sums = vec![0_u16; row_len];
    for row in sample.chunks_exact(row_len) {
        for (sum, &byte) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(u16::from(byte));
        }
    }
    sums.iter().map(|&sum| ((sum + SAMPLE_ROWS as u16 / 2) / SAMPLE_ROWS as u16) as u8).collect()
}
