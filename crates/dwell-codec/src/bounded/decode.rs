//! A payload back to elements.

use super::plan::{MAX_LOW_BITS, Plan};
use super::source::{CHUNK, Source, Work};
use super::{BoundedScratch, VERSION, for_exact};
use crate::plane::{BLOCK_ELEMENTS, decode_plane};

pub(super) fn decode<S: Source>(mut payload: &[u8], scratch: &mut BoundedScratch, out: &mut [u8]) -> Option<()> {
    let plan = read_plan(&mut payload)?;
    if !out.len().is_multiple_of(S::BYTES) {
        return None;
    }
    for block in out.chunks_mut(BLOCK_ELEMENTS * S::BYTES) {
        scratch.resize(block.len() / S::BYTES, plan.low_planes());
        decode_plane(&mut payload, &mut scratch.table, &mut scratch.symbols)?;
        for low in &mut scratch.low[..plan.low_planes()] {
            decode_plane(&mut payload, &mut scratch.table, low)?;
        }
        reconstruct::<S>(&plan, scratch, block);
        put_exact::<S>(&scratch.symbols, &mut payload, block)?;
    }
    payload.is_empty().then_some(())
}

fn read_plan(payload: &mut &[u8]) -> Option<Plan> {
    let (&[version, low_bits], rest) = payload.split_first_chunk()?;
    let (first, rest) = rest.split_first_chunk()?;
    let (step, rest) = rest.split_first_chunk()?;
    *payload = rest;
    let plan =
        Plan { step: f64::from_le_bytes(*step), first: i32::from_le_bytes(*first), low_bits: u32::from(low_bits) };
    (version == VERSION && plan.low_bits <= MAX_LOW_BITS).then_some(plan)
}

fn reconstruct<S: Source>(plan: &Plan, scratch: &BoundedScratch, block: &mut [u8]) {
    let step = S::Work::from_f64(plan.step);
    let mut numbers = [0_u32; CHUNK];
    let mut values = [S::Work::default(); CHUNK];
    for (index, chunk) in block.chunks_mut(CHUNK * S::BYTES).enumerate() {
        let elements = chunk.len() / S::BYTES;
        let at = index * CHUNK..index * CHUNK + elements;
        for (number, &symbol) in numbers.iter_mut().zip(&scratch.symbols[at.clone()]) {
            *number = u32::from(symbol) << plan.low_bits;
        }
        for (byte_index, plane) in scratch.low[..plan.low_planes()].iter().enumerate() {
            for (number, &low) in numbers.iter_mut().zip(&plane[at.clone()]) {
                *number |= u32::from(low) << (8 * byte_index);
            }
        }
        for index in 0..CHUNK {
            values[index] = S::Work::reconstruct(plan.first.wrapping_add(numbers[index] as i32), step);
        }
        S::round(&mut values);
        S::store(&values[..elements], chunk);
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
