//! Text that valgrind's `--tool=lackey --trace-mem=yes` writes: one line for each instruction, load and store.
//!
//! ```text
//! I  04001090,3        an instruction of 3 bytes
//!  L 1ffeffff30,8      a load of 8 bytes
//!  S 1ffeffff28,8      a store
//!  M 04222cac,4        a modification: a load, then a store of the same bytes
//! ==4242== Command: …  words of valgrind itself
//! ```
//!
//! Lines have no time. Each access gets a count in its place: of the instructions so far or, if the recording has no
//! instructions because they were filtered out, of the accesses before it.

use std::io::{ErrorKind, Read};

use memchr::memchr;

use crate::error::{DecodeError, DecodeReason};

/// Bytes that are read at a time. A line that does not fit is none of lackey's.
const BUFFER_BYTES: usize = 1 << 20;
/// Lines of each reason that are kept.
const KEPT_LINES: usize = 3;
/// Bytes of such a line that are kept.
const KEPT_LINE_BYTES: usize = 120;
/// More bytes than any instruction accesses at once: lackey itself states at most 512.
const ACCESS_BYTES_MAX: u64 = 64 * 1024;

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LackeyAccess {
    /// Instructions or accesses before it; see [`LackeyClock`].
    pub ordinal: u64,
    /// Whether bytes were written.
    pub is_store: bool,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
}

/// What stands in the place of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LackeyClock {
    /// Instructions so far, the one that makes the access included.
    Instructions,
    /// Accesses before this one: the recording has no instructions. Both parts of a modification count.
    Accesses,
}

/// Why a line was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// Words of valgrind itself.
    Valgrind,
    /// A line of another form, such as output of the program.
    OtherText,
    /// A line of lackey's form whose address or size cannot be one.
    BadNumber,
    /// A line that is far too long.
    TooLong,
    /// The last line, without its end: digits may be missing.
    CutOff,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [SkipReason; 5] =
        [SkipReason::Valgrind, SkipReason::OtherText, SkipReason::BadNumber, SkipReason::TooLong, SkipReason::CutOff];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::Valgrind => "valgrind",
            SkipReason::OtherText => "other_text",
            SkipReason::BadNumber => "bad_number",
            SkipReason::TooLong => "too_long",
            SkipReason::CutOff => "cut_off",
        }
    }

    /// Whether an access may have been in the line.
    pub fn is_loss(self) -> bool {
        !matches!(self, SkipReason::Valgrind | SkipReason::OtherText)
    }
}

/// Lines that were passed over for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first of them: offset in the recording, and text.
    pub first: Vec<(u64, String)>,
}

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LackeyCounts {
    /// Bytes.
    pub bytes: u64,
    /// Lines, those that were passed over included.
    pub lines: u64,
    /// Instructions.
    pub instructions: u64,
    /// Loads, without those of modifications.
    pub loads: u64,
    /// Stores, without those of modifications.
    pub stores: u64,
    /// Modifications: a load and a store each.
    pub modifications: u64,
    /// Lines that were passed over, by [`SkipReason`] in the order of its list.
    pub skipped: [SkippedLines; SkipReason::ALL.len()],
}

impl LackeyCounts {
    /// Loads and stores; a modification is both.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores + 2 * self.modifications
    }

    fn skip(&mut self, reason: SkipReason, offset: u64, line: &[u8], bytes: u64) {
        let skipped = &mut self.skipped[reason as usize];
        skipped.count += 1;
        skipped.bytes += bytes;
        if skipped.first.len() < KEPT_LINES {
            let text = String::from_utf8_lossy(&line[..line.len().min(KEPT_LINE_BYTES)]).into_owned();
            skipped.first.push((offset, text));
        }
    }
}

/// Decodes one recording, which may be in several pieces.
#[derive(Debug, Default)]
pub struct LackeyDecoder {
    counts: LackeyCounts,
    clock: Option<LackeyClock>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Instruction,
    Load,
    Store,
    Modification,
}

impl LackeyDecoder {
    /// Reads a piece to its end and hands each access on.
    pub fn read<E: From<DecodeError>>(
        &mut self,
        recording: &mut impl Read,
        each: &mut impl FnMut(LackeyAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = vec![0; BUFFER_BYTES];
        // Bytes of the line at the front of the buffer, and of one that was too long, so far.
        let (mut filled, mut passed_over) = (0, 0);
        loop {
            let read = match recording.read(&mut buffer[filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|error| DecodeError::new(self.counts.bytes, DecodeReason::Read(error)))?,
            };
            if read == 0 {
                self.end_piece(&buffer[..filled], passed_over);
                return Ok(());
            }
            filled += read;
            let mut begin = 0;
            while let Some(length) = memchr(b'\n', &buffer[begin..filled]) {
                let line = &buffer[begin..begin + length];
                match std::mem::take(&mut passed_over) {
                    0 => self.line(line, each)?,
                    before => self.too_long(line, before),
                }
                begin += length + 1;
            }
            buffer.copy_within(begin..filled, 0);
            filled -= begin;
            if filled == buffer.len() {
                passed_over += std::mem::take(&mut filled) as u64;
            }
        }
    }

    /// What was read so far.
    pub fn counts(&self) -> &LackeyCounts {
        &self.counts
    }

    /// What stands in the place of time; none before the first row.
    pub fn clock(&self) -> Option<LackeyClock> {
        self.clock
    }

    fn line<E>(&mut self, line: &[u8], each: &mut impl FnMut(LackeyAccess) -> Result<(), E>) -> Result<(), E> {
        let offset = self.counts.bytes;
        self.counts.bytes += line.len() as u64 + 1;
        self.counts.lines += 1;
        let Some(kind) = kind_of(line) else {
            let is_valgrind = line.starts_with(b"==") || line.starts_with(b"--") || line.starts_with(b"**");
            let reason = if is_valgrind { SkipReason::Valgrind } else { SkipReason::OtherText };
            self.counts.skip(reason, offset, line, line.len() as u64);
            return Ok(());
        };
        let Some((address, size_bytes)) = numbers(&line[3..]) else {
            self.counts.skip(SkipReason::BadNumber, offset, line, line.len() as u64);
            return Ok(());
        };
        self.row(kind, address, size_bytes, each)
    }

    fn row<E>(
        &mut self,
        kind: RowKind,
        address: u64,
        size_bytes: u64,
        each: &mut impl FnMut(LackeyAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        let clock = *self.clock.get_or_insert(match kind {
            RowKind::Instruction => LackeyClock::Instructions,
            _ => LackeyClock::Accesses,
        });
        let ordinal = match clock {
            LackeyClock::Instructions => self.counts.instructions,
            LackeyClock::Accesses => self.counts.accesses(),
        };
        let access = |ordinal, is_store| LackeyAccess { ordinal, is_store, address, size_bytes };
        match kind {
            RowKind::Instruction => self.counts.instructions += 1,
            RowKind::Load => {
                self.counts.loads += 1;
                each(access(ordinal, false))?;
            }
            RowKind::Store => {
                self.counts.stores += 1;
                each(access(ordinal, true))?;
            }
            RowKind::Modification => {
                self.counts.modifications += 1;
                each(access(ordinal, false))?;
                each(access(ordinal + u64::from(clock == LackeyClock::Accesses), true))?;
            }
        }
        Ok(())
    }

    fn too_long(&mut self, rest: &[u8], before: u64) {
        let (offset, bytes) = (self.counts.bytes, before + rest.len() as u64);
        self.counts.bytes += bytes + 1;
        self.counts.lines += 1;
        self.counts.skip(SkipReason::TooLong, offset, b"", bytes);
    }

    fn end_piece(&mut self, rest: &[u8], passed_over: u64) {
        let (offset, bytes) = (self.counts.bytes, passed_over + rest.len() as u64);
        if bytes > 0 {
            self.counts.bytes += bytes;
            self.counts.lines += 1;
            self.counts.skip(SkipReason::CutOff, offset, rest, bytes);
        }
    }
}

fn kind_of(line: &[u8]) -> Option<RowKind> {
    Some(match line.get(..3)? {
        b"I  " => RowKind::Instruction,
        b" L " => RowKind::Load,
        b" S " => RowKind::Store,
        b" M " => RowKind::Modification,
        _ => return None,
    })
}

/// Address and size of `1ffeffff30,8`.
fn numbers(text: &[u8]) -> Option<(u64, u64)> {
    let mut address = 0u64;
    let mut digits = 0;
    let mut bytes = text.iter();
    for &byte in bytes.by_ref() {
        let digit = HEX_DIGITS[usize::from(byte)];
        if digit == NOT_HEX {
            if byte == b',' {
                break;
            }
            return None;
        }
        address = address << 4 | u64::from(digit);
        digits += 1;
    }
    let size_bytes = decimal(bytes.as_slice())?;
    let is_plausible = (1..=16).contains(&digits) && address.checked_add(size_bytes).is_some();
    is_plausible.then_some((address, size_bytes))
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 5 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    (1..=ACCESS_BYTES_MAX).contains(&value).then_some(value)
}

const NOT_HEX: u8 = 0xff;

/// What each byte is as a digit.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [NOT_HEX; 256];
    let mut digit = 0;
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digits[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};
