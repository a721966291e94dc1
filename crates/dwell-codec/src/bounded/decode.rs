//! A payload back to elements.

use super::plan::{MAX_LOW_BITS, Plan};
use super::scale::{ONE, scale_of};
use super::source::{CHUNK, Source, Work};
use super::vectors::block_len;
use super::{BoundedScratch, SAME_STEPS_VERSION, VERSION, for_exact};
use crate::plane::{BLOCK_ELEMENTS, decode_plane};

/// What a payload begins with.
struct Head {
    plan: Plan,
    vector_len: usize,
    /// Whether vectors have scales; in payloads of the first version they have not.
    has_scales: bool,
}

pub(super) fn decode<S: Source>(mut payload: &[u8], scratch: &mut BoundedScratch, out: &mut [u8]) -> Option<()> {
    let head = read_head(&mut payload)?;
    if !out.len().is_multiple_of(S::BYTES) {
        return None;
    }
    for block in out.chunks_mut(block_len(head.vector_len) * S::BYTES) {
        let elements = block.len() / S::BYTES;
        scratch.resize(elements, elements.div_ceil(head.vector_len), head.plan.low_planes());
        read_scales(&head, &mut payload, scratch)?;
        let low = &mut scratch.low[..head.plan.low_planes()];
        for plane in std::iter::once(&mut scratch.symbols).chain(low) {
            decode_plane(&mut payload, &mut scratch.table, plane)?;
        }
        reconstruct::<S>(&head, scratch, block);
        put_exact::<S>(&scratch.symbols, &mut payload, block)?;
    }
    payload.is_empty().then_some(())
}

fn read_head(payload: &mut &[u8]) -> Option<Head> {
    let (&[version, low_bits], rest) = payload.split_first_chunk()?;
    let (first, rest) = rest.split_first_chunk()?;
    let (unit, mut rest) = rest.split_first_chunk()?;
    let has_scales = version == VERSION;
    let mut vector_len = BLOCK_ELEMENTS;
    if has_scales {
        let (length, others) = rest.split_first_chunk()?;
        (vector_len, rest) = (usize::try_from(u32::from_le_bytes(*length)).ok()?, others);
    }
    *payload = rest;
    let (unit, first, low_bits) = (f64::from_le_bytes(*unit), i32::from_le_bytes(*first), u32::from(low_bits));
    let is_known = [SAME_STEPS_VERSION, VERSION].contains(&version);
    let is_fit = low_bits <= MAX_LOW_BITS && (1..=BLOCK_ELEMENTS).contains(&vector_len);
    (is_known && is_fit).then_some(Head { plan: Plan { unit, first, low_bits }, vector_len, has_scales })
}

fn read_scales(head: &Head, payload: &mut &[u8], scratch: &mut BoundedScratch) -> Option<()> {
    for (plane, one) in scratch.scales.iter_mut().zip(ONE.to_be_bytes()) {
        match head.has_scales {
            true => decode_plane(payload, &mut scratch.table, plane)?,
            false => plane.fill(one),
        }
    }
    Some(())
}

fn reconstruct<S: Source>(head: &Head, scratch: &BoundedScratch, block: &mut [u8]) {
    let plan = &head.plan;
    let mut numbers = [0_u32; CHUNK];
    let mut values = [S::Work::default(); CHUNK];
    for (vector_index, vector) in block.chunks_mut(head.vector_len * S::BYTES).enumerate() {
        let code = u16::from_be_bytes([scratch.scales[0][vector_index], scratch.scales[1][vector_index]]);
        let step = S::Work::from_f64(plan.unit * scale_of(code));
        for (index, chunk) in vector.chunks_mut(CHUNK * S::BYTES).enumerate() {
            let start = vector_index * head.vector_len + index * CHUNK;
            let at = start..start + chunk.len() / S::BYTES;
            let (numbers, values) = (&mut numbers[..at.len()], &mut values[..at.len()]);
            for (number, &symbol) in numbers.iter_mut().zip(&scratch.symbols[at.clone()]) {
                *number = u32::from(symbol) << plan.low_bits;
            }
            for (byte_index, plane) in scratch.low[..plan.low_planes()].iter().enumerate() {
                for (number, &low) in numbers.iter_mut().zip(&plane[at.clone()]) {
                    *number |= u32::from(low) << (8 * byte_index);
                }
            }
            for (value, &number) in values.iter_mut().zip(numbers.iter()) {
                *value = S::Work::reconstruct(plan.first.wrapping_add(number as i32), step);
            }
            S::round(values);
            S::store(values, chunk);
        }
    }
}

/// Puts the elements that were kept exactly in their places.
fn put_exact<S: Source>(symbols: &[u8], payload: &mut &[u8], block: &mut [u8]) -> Option<()> {
    let mut is_whole = true;
    for_exact(symbols, |index| match payload.split_at_checked(S::BYTES) {
        Some((exact, rest)) => {
            block[index * S::BYTES..][..S::BYTES].copy_from_slice(exact);
            *payload = rest;
        }
        None => is_whole = false,
    });
    is_whole.then_some(())
}
