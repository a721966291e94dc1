//! From elements that lie anywhere in memory to elements one after another.

use dwell_events::DIMENSIONS;

use crate::slice::Taken;

/// Where the elements of a tensor lie: bytes from the first on, lengths and strides innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// From the first element to the last.
    pub memory: &'a [u8],
    /// Its lengths, innermost first.
    pub lengths: [u64; DIMENSIONS],
    /// Bytes from one element to the next, by dimension, innermost first.
    pub strides_bytes: [usize; DIMENSIONS],
}

/// Places along one dimension.
#[derive(Clone, Copy)]
struct Walk {
    count: usize,
    stride_bytes: usize,
}

/// The strides or lengths do not fit the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside;

/// The elements that are taken, outermost dimension first and one after another: borrowed where they lie like that,
/// else copied into `copy`. `taken` is outermost first; dimensions that it does not have are of length 1.
pub(crate) fn gather<'a>(
    tensor: Strided<'a>,
    element_bytes: usize,
    taken: &[Taken],
    copy: &'a mut Vec<u8>,
) -> Result<&'a [u8], Outside> {
    let mut offset = 0_usize;
    let mut walks = Vec::with_capacity(taken.len());
    for (taken, &stride_bytes) in taken.iter().rev().zip(&tensor.strides_bytes) {
        let number = |value: u64| usize::try_from(value).map_err(|_| Outside);
        let product = |one: usize, other: usize| one.checked_mul(other).ok_or(Outside);
        offset = offset.checked_add(product(number(taken.start)?, stride_bytes)?).ok_or(Outside)?;
        walks.push(Walk { count: number(taken.count)?, stride_bytes: product(number(taken.step)?, stride_bytes)? });
    }
    if walks.iter().any(|walk| walk.count == 0) {
        return Ok(&[]);
    }
    let (run_bytes, outer) = longest_run(element_bytes, &walks);
    if outer.is_empty() {
        return piece(tensor.memory, offset, run_bytes);
    }
    copy.clear();
    copy_runs(tensor.memory, offset, run_bytes, outer, copy)?;
    Ok(copy)
}

/// Bytes that lie one after another, and the dimensions around them.
fn longest_run(element_bytes: usize, walks: &[Walk]) -> (usize, &[Walk]) {
    let mut run_bytes = element_bytes;
    for (inner, walk) in walks.iter().enumerate() {
        if walk.stride_bytes != run_bytes && walk.count > 1 {
            return (run_bytes, &walks[inner..]);
        }
        run_bytes *= walk.count;
    }
    (run_bytes, &[])
}

fn copy_runs(
    memory: &[u8],
    offset: usize,
    run_bytes: usize,
    walks: &[Walk],
    copy: &mut Vec<u8>,
) -> Result<(), Outside> {
    let Some((outermost, inner)) = walks.split_last() else {
        copy.extend_from_slice(piece(memory, offset, run_bytes)?);
        return Ok(());
    };
    (0..outermost.count).try_for_each(|place| {
        let place_offset = place.checked_mul(outermost.stride_bytes).and_then(|step| offset.checked_add(step));
        copy_runs(memory, place_offset.ok_or(Outside)?, run_bytes, inner, copy)
    })
}

fn piece(memory: &[u8], offset: usize, length_bytes: usize) -> Result<&[u8], Outside> {
    let end = offset.checked_add(length_bytes).ok_or(Outside)?;
    memory.get(offset..end).ok_or(Outside)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::Slice;

    /// 2 × 3 × 4 numbers of 2 bytes that count up.
    fn numbers() -> Vec<u8> {
        (0_u16..24).flat_map(u16::to_le_bytes).collect()
    }

    fn taken_of(memory: &[u8], lengths: [u64; 4], strides_bytes: [usize; 4], slice: &str) -> Vec<u16> {
        let rank = 3;
        let shape: Vec<u64> = lengths[..rank].iter().rev().copied().collect();
        let taken = slice.parse::<Slice>().unwrap().of(&shape).unwrap();
        let mut copy = Vec::new();
        let bytes = gather(Strided { memory, lengths, strides_bytes }, 2, &taken, &mut copy).unwrap();
        bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn slices_are_those_of_numpy() {
        let memory = numbers();
        let of = |slice| taken_of(&memory, [4, 3, 2, 1], [2, 8, 24, 48], slice);
        // numpy.arange(24).reshape(2, 3, 4)[...].ravel()
        assert_eq!(of(":"), (0..24).collect::<Vec<_>>());
        assert_eq!(of("1"), (12..24).collect::<Vec<_>>());
        assert_eq!(of(":, 1"), [4, 5, 6, 7, 16, 17, 18, 19]);
        assert_eq!(of(":, ::2, 1:3"), [1, 2, 9, 10, 13, 14, 21, 22]);
        assert_eq!(of("-1, -1, ::3"), [20, 23]);
        assert_eq!(of(":, 5:"), [0_u16; 0]);
    }

    #[test]
    fn a_permuted_tensor_comes_out_in_its_own_order() {
        let memory = numbers();
        // The two inner dimensions exchanged: numpy.arange(24).reshape(2, 3, 4).transpose(0, 2, 1).ravel()
        let swapped = taken_of(&memory, [3, 4, 2, 1], [8, 2, 24, 48], ":");
        assert_eq!(swapped[..6], [0, 4, 8, 1, 5, 9]);
        assert_eq!(swapped[12..15], [12, 16, 20]);
    }

    #[test]
    fn what_lies_together_is_not_copied() {
        let memory = numbers();
        let taken = ":".parse::<Slice>().unwrap().of(&[2, 3, 4]).unwrap();
        let tensor = Strided { memory: &memory, lengths: [4, 3, 2, 1], strides_bytes: [2, 8, 24, 48] };
        let mut copy = Vec::new();
        assert_eq!(gather(tensor, 2, &taken, &mut copy).unwrap().as_ptr(), memory.as_ptr());
    }

    #[test]
    fn strides_beyond_the_memory_are_refused() {
        let memory = numbers();
        let taken = ":".parse::<Slice>().unwrap().of(&[2, 3, 4]).unwrap();
        for strides_bytes in [[2, 8, 48, 48], [2, usize::MAX, 24, 48]] {
            let tensor = Strided { memory: &memory, lengths: [4, 3, 2, 1], strides_bytes };
            assert_eq!(gather(tensor, 2, &taken, &mut Vec::new()), Err(Outside));
        }
    }
}
