//! Bytes in and out: little-endian numbers, short texts, lists, and integers as runs.

use crate::DecodeError;

/// Appends numbers and texts to a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_i64(&mut self, value: i64);
    fn put_text(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_text(&mut self, text: &str) {
        let length = text.len().min(u16::MAX.into());
        self.put_u16(length as u16);
        self.extend_from_slice(&text.as_bytes()[..length]);
    }
}

/// Reads what [`Put`] wrote; every read is checked, because a file may be damaged.
pub(crate) struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.bytes(N)?.try_into().expect("`bytes` gives as many as asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }
    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        let length = self.u16()?;
        Ok(String::from_utf8_lossy(self.bytes(length.into())?).into_owned())
    }

    /// Reads a count and then that many items. A count that the bytes cannot hold is refused before allocating.
    pub(crate) fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_bytes_min) > self.rest.len() {
            return Err(DecodeError::Short);
        }
        (0..count).map(|_| item(self)).collect()
    }
}

/// Writes integers as runs `start, start + stride, …`: row indices are almost always consecutive, and the element
/// indices of a transposed V cache are one run per token.
pub(crate) fn put_runs(out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
    let count_at = out.len();
    out.put_u32(0);
    let mut runs = 0u32;
    let mut run: Option<(i64, i64, u32)> = None;
    for value in values {
        run = Some(match run {
            None => (value, 1, 1),
            Some((start, _, 1)) if value.wrapping_sub(start) != 0 => (start, value.wrapping_sub(start), 2),
            Some((start, stride, count))
                if count > 1 && value == start.wrapping_add(stride.wrapping_mul(count.into())) =>
            {
                (start, stride, count + 1)
            }
            Some(done) => {
                put_run(out, done);
                runs += 1;
                (value, 1, 1)
            }
        });
    }
    if let Some(done) = run {
        put_run(out, done);
        runs += 1;
    }
    out[count_at..count_at + 4].copy_from_slice(&runs.to_le_bytes());
}

fn put_run(out: &mut Vec<u8>, (start, stride, count): (i64, i64, u32)) {
    out.put_i64(start);
    out.put_i64(stride);
    out.put_u32(count);
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.put_u32(items.len() as u32);
    items.iter().for_each(|item| put(out, item));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexRuns;

    fn round_trip(values: &[i64]) -> (usize, Vec<i64>) {
        let mut bytes = Vec::new();
        put_runs(&mut bytes, values.iter().copied());
        let runs = IndexRuns::decode(&bytes).unwrap();
        (runs.runs.len(), runs.values().collect())
    }

    #[test]
    fn any_indices_come_back_from_their_runs() {
        for values in [
            vec![],
            vec![5],
            vec![5, 5, 5],
            vec![0, 1, 2, 3, 9, 10, 11],
            vec![7, 3, 7, 3],
            vec![i64::MIN, i64::MAX, 0],
            (0..4).flat_map(|token| (0..6).map(move |row| row * 512 + token)).collect(),
        ] {
            assert_eq!(round_trip(&values).1, values);
        }
    }

    #[test]
    fn consecutive_rows_are_one_run_and_a_transposed_cache_one_per_token() {
        assert_eq!(round_trip(&(40..552).collect::<Vec<_>>()).0, 1);
        let transposed: Vec<i64> = (0..4).flat_map(|token| (0..6).map(move |row| row * 512 + token)).collect();
        assert_eq!(round_trip(&transposed).0, 4);
    }
}
