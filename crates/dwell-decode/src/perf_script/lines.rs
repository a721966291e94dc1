//! Lines of a text, with bounded memory.

use std::io::{ErrorKind, Read};

use super::Reason;
use crate::error::{DecodeError, DecodeReason};

/// The longest line that is read. Names of C++ functions have a few thousand characters at most.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;
/// Bytes that are held: some thousand lines for each system call, and still in a core's own cache when they are looked at.
const WINDOW_BYTES: usize = 4 * MAX_LINE_BYTES;

/// A reader of lines.
pub(super) struct Lines<R> {
    reader: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the text.
    offset: u64,
    is_at_end: bool,
}

/// A line, and the next one if that belongs to it.
pub(super) struct Line<'a> {
    /// Without its end.
    pub text: &'a [u8],
    /// The next line, if it begins with a tab: the innermost function of a call chain. It stays the next line.
    pub chain: Option<&'a [u8]>,
    /// Why it must not be read: it is too long, or its end is missing, and then a number may be cut.
    pub fault: Option<Reason>,
}

/// Where the next lines end, counted from `start`.
struct Ends {
    first: usize,
    chain: Option<usize>,
}

impl<R: Read> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, bytes: vec![0; WINDOW_BYTES], start: 0, end: 0, offset: 0, is_at_end: false }
    }

    /// The next line; none at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Line<'_>>, DecodeError> {
        let Ends { first, chain } = loop {
            match self.ends() {
                Some(ends) => break ends,
                None => self.fill()?,
            }
        };
        if self.start == self.end {
            return Ok(None);
        }
        if first > MAX_LINE_BYTES {
            self.pass_line()?;
            return Ok(Some(Line { text: &[], chain: None, fault: Some(Reason::TooLong) }));
        }
        let held = &self.bytes[self.start..self.end];
        let text = &held[..first];
        let chain = chain.map(|end| &held[first + 1..end]);
        let fault = (first == held.len()).then_some(Reason::Unfinished);
        let passed = (first + 1).min(held.len());
        self.start += passed;
        self.offset += passed as u64;
        Ok(Some(Line { text: text.strip_suffix(b"\r").unwrap_or(text), chain, fault }))
    }

    /// Where the next line ends; none if more must be read to say so.
    #[inline]
    fn ends(&self) -> Option<Ends> {
        let held = &self.bytes[self.start..self.end];
        let limited = &held[..held.len().min(MAX_LINE_BYTES + 1)];
        let Some(first) = memchr::memchr(b'\n', limited) else {
            let is_all = limited.len() == held.len();
            let end = if is_all { held.len() } else { MAX_LINE_BYTES + 1 };
            return (self.is_at_end || held.len() > MAX_LINE_BYTES).then_some(Ends { first: end, chain: None });
        };
        match held.get(first + 1) {
            None if !self.is_at_end => None,
            Some(b'\t') => self.end_of_chain(first),
            _ => Some(Ends { first, chain: None }),
        }
    }

    fn end_of_chain(&self, first: usize) -> Option<Ends> {
        let next = &self.bytes[self.start + first + 1..self.end];
        let limited = &next[..next.len().min(MAX_LINE_BYTES)];
        let is_whole = self.is_at_end || next.len() >= MAX_LINE_BYTES;
        let end = memchr::memchr(b'\n', limited).or_else(|| is_whole.then_some(limited.len()));
        end.map(|bytes| Ends { first, chain: Some(first + 1 + bytes) })
    }

    /// Passes over the rest of a line that is too long.
    fn pass_line(&mut self) -> Result<(), DecodeError> {
        loop {
            let held = &self.bytes[self.start..self.end];
            let end = memchr::memchr(b'\n', held);
            let passed = end.map_or(held.len(), |end| end + 1);
            self.start += passed;
            self.offset += passed as u64;
            if end.is_some() || self.is_at_end {
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), DecodeError> {
        // A pipe gives little at a time, and moving what is held each time would cost more than reading.
        if self.bytes.len() - self.end < MAX_LINE_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = loop {
            match self.reader.read(&mut self.bytes[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let count = read.map_err(|error| DecodeError::new(self.offset, DecodeReason::Read(error)))?;
        self.end += count;
        self.is_at_end = count == 0;
        Ok(())
    }
}
