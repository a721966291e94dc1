//! The bytes of a capture, decompressed, and the numbers and texts that they are made of.

use std::io::{self, Cursor, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

use crate::error::{DecodeError, DecodeReason};

/// First bytes of an LZ4 frame, in which memray wraps a finished capture unless it is told not to.
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// The capture behind the first four bytes, which were read to recognise its form.
type Whole<R> = io::Chain<Cursor<Vec<u8>>, R>;

enum Source<R: Read> {
    Plain(WithoutZeroTail<Whole<R>>),
    Lz4(Box<FrameDecoder<Whole<R>>>),
}

/// Reads a capture from its beginning to its end.
pub(super) struct Input<R: Read> {
    source: Source<R>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Decompressed bytes before `buffer`.
    before_buffer: u64,
}

impl<R: Read> Input<R> {
    pub fn new(mut reader: R) -> Result<Self, DecodeError> {
        let mut magic = Vec::with_capacity(LZ4_MAGIC.len());
        let read = (&mut reader).take(LZ4_MAGIC.len() as u64).read_to_end(&mut magic);
        read.map_err(|error| DecodeError::new(0, DecodeReason::Read(error)))?;
        let is_compressed = magic == LZ4_MAGIC;
        let whole = Cursor::new(magic).chain(reader);
        let source = match is_compressed {
            true => Source::Lz4(Box::new(FrameDecoder::new(whole))),
            false => Source::Plain(WithoutZeroTail::new(whole)),
        };
        Ok(Self { source, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, before_buffer: 0 })
    }

    pub fn is_compressed(&self) -> bool {
        matches!(self.source, Source::Lz4(_))
    }

    /// Decompressed bytes that were taken.
    pub fn offset(&self) -> u64 {
        self.before_buffer + self.start as u64
    }

    pub fn error(&self, reason: DecodeReason) -> DecodeError {
        DecodeError::new(self.offset(), reason)
    }

    pub fn malformed(&self, found: impl Into<String>) -> DecodeError {
        self.error(DecodeReason::Malformed(found.into()))
    }

    /// An error unless a count that the capture states is at most `limit`.
    pub fn check_count(&self, what: &'static str, found: u64, limit: u64) -> Result<(), DecodeError> {
        match found <= limit {
            true => Ok(()),
            false => Err(self.error(DecodeReason::TooMany { what, found, limit })),
        }
    }

    /// The next byte; none at the end.
    #[inline]
    pub fn next_byte(&mut self) -> Result<Option<u8>, DecodeError> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(Some(byte))
    }

    #[inline]
    pub fn byte(&mut self, within: &'static str) -> Result<u8, DecodeError> {
        match self.next_byte()? {
            Some(byte) => Ok(byte),
            None => Err(self.ends_within(within)),
        }
    }

    /// The bytes of a number of fixed size.
    pub fn fixed<const N: usize>(&mut self, within: &'static str) -> Result<[u8; N], DecodeError> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte(within)?;
        }
        Ok(bytes)
    }

    pub fn word(&mut self, within: &'static str) -> Result<u64, DecodeError> {
        self.fixed(within).map(u64::from_le_bytes)
    }

    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    #[inline]
    pub fn varint(&mut self, within: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(within)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed(format!("{within} has a number of more than 64 bits")))
    }

    /// The same with the sign in the lowest bit.
    #[inline]
    pub fn signed(&mut self, within: &'static str) -> Result<i64, DecodeError> {
        let value = self.varint(within)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A text that ends with a zero byte. Bytes that are no UTF-8 are replaced.
    pub fn text(&mut self, within: &'static str, limit: usize) -> Result<String, DecodeError> {
        let mut bytes = Vec::new();
        loop {
            match self.byte(within)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
            self.check_count("bytes of a text", bytes.len() as u64, limit as u64)?;
        }
    }

    /// So many bytes. Memory grows with what is there, not with what is stated.
    pub fn bytes(&mut self, within: &'static str, length: u64) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            if self.start == self.end && !self.fill()? {
                return Err(self.ends_within(within));
            }
            let wanted = (length - bytes.len() as u64).min((self.end - self.start) as u64) as usize;
            bytes.extend_from_slice(&self.buffer[self.start..self.start + wanted]);
            self.start += wanted;
        }
        Ok(bytes)
    }

    pub fn ends_within(&self, within: &'static str) -> DecodeError {
        self.error(DecodeReason::EndsWithin { within })
    }

    /// Reads on; whether there was anything.
    fn fill(&mut self) -> Result<bool, DecodeError> {
        self.before_buffer += self.end as u64;
        (self.start, self.end) = (0, 0);
        let read = loop {
            let read = match &mut self.source {
                Source::Plain(source) => source.read(&mut self.buffer),
                Source::Lz4(source) => source.read(&mut self.buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.end = read.map_err(|error| self.error(reason_of(error)))?;
        Ok(self.end > 0)
    }
}

/// What a failure to read means: the end of the file within a compressed block, damage, or the disk.
fn reason_of(error: io::Error) -> DecodeReason {
    let is_lz4 = error.get_ref().is_some_and(|inner| inner.is::<lz4_flex::frame::Error>());
    match error.kind() {
        ErrorKind::UnexpectedEof => DecodeReason::EndsWithin { within: "a compressed block" },
        _ if is_lz4 => DecodeReason::Malformed(format!("decompressing (LZ4) failed with {error}")),
        _ => DecodeReason::Read(error),
    }
}

/// Leaves out zero bytes at the end.
///
/// memray lets a file grow by whole blocks and writes into them, so that the file of a process that was killed ends with
/// zeros, possibly within a record. No record begins with a zero byte, and a finished capture ends with another one.
struct WithoutZeroTail<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Zeros that come before `start..end` of the buffer.
    zeros: u64,
    start: usize,
    end: usize,
    /// Zeros behind it, which count only if something follows.
    tail: u64,
}

impl<R> WithoutZeroTail<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER_BYTES], zeros: 0, start: 0, end: 0, tail: 0 }
    }
}

impl<R: Read> Read for WithoutZeroTail<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.start == self.end {
            let read = self.reader.read(&mut self.buffer)?;
            if read == 0 {
                return Ok(0);
            }
            self.zeros += std::mem::take(&mut self.tail);
            let is_content = |byte: &u8| *byte != 0;
            let bytes = &self.buffer[..read];
            match (bytes.iter().position(is_content), bytes.iter().rposition(is_content)) {
                (Some(first), Some(last)) => {
                    self.zeros += first as u64;
                    (self.start, self.end, self.tail) = (first, last + 1, (read - last - 1) as u64);
                }
                _ => self.zeros += read as u64,
            }
        }
        if self.zeros > 0 {
            let count = (out.len() as u64).min(self.zeros);
            out[..count as usize].fill(0);
            self.zeros -= count;
            return Ok(count as usize);
        }
        let count = out.len().min(self.end - self.start);
        out[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_tail(bytes: &[u8]) -> Vec<u8> {
        let mut read = Vec::new();
        WithoutZeroTail::new(bytes).read_to_end(&mut read).expect("bytes in memory can be read");
        read
    }

    #[test]
    fn zeros_at_the_end_are_left_out_and_no_others() {
        assert_eq!(without_tail(b""), b"");
        assert_eq!(without_tail(&[0; 10]), b"");
        assert_eq!(without_tail(&[0, 0, 1, 0, 2, 0, 0]), [0, 0, 1, 0, 2]);
        // Zeros that span several reads, before and behind the last byte that counts.
        let mut long = vec![0; 3 * BUFFER_BYTES + 7];
        long[5] = 9;
        long[2 * BUFFER_BYTES + 3] = 7;
        assert_eq!(without_tail(&long), long[..2 * BUFFER_BYTES + 4]);
    }

    #[test]
    fn numbers_are_those_of_memray() {
        let numbers = |bytes: &[u8]| Input::new(bytes.to_vec().leak() as &[u8]).expect("bytes in memory can be read");
        // As memray's writer encodes 300, −3 and the largest number.
        assert_eq!(numbers(&[0xac, 0x02]).varint("a test").expect("whole"), 300);
        assert_eq!(numbers(&[0x05]).signed("a test").expect("whole"), -3);
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(numbers(&largest).varint("a test").expect("whole"), u64::MAX);
        let endless = numbers(&[0xff; 11]).varint("a test").expect_err("ten bytes at most");
        assert!(endless.to_string().starts_with("a test has a number of more than 64 bits"), "{endless}");
        assert!(numbers(&[0x80]).varint("a test").expect_err("cut").is_truncation());
    }
}
