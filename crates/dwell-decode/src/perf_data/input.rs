//! The records of a recording, one after the other, with those inside compressed records.

use std::io::{ErrorKind, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::kind;
use crate::error::{DecodeError, DecodeReason};

/// Bytes that are held of the recording and of what was decompressed, each. A record has at most 64 KiB; reading less than
/// 1 MiB at a time costs more system calls than copying the rest of a record to the front.
const WINDOW_BYTES: usize = 1 << 20;

/// Kind, `misc` and size, before every record.
const HEAD_BYTES: usize = 8;

/// One record.
pub(super) struct RawRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
    /// Where it is in the recording; for a compressed one, where the record is that holds it.
    pub offset: u64,
}

/// A reader of records.
pub(super) struct Input<R> {
    reader: R,
    /// Bytes that may still be read: to the end of the data section.
    left: u64,
    plain: Window,
    /// Where `plain` begins in the recording.
    offset: u64,
    inflated: Window,
    compressed: Compressed,
}

/// The part of a compressed record that is not decompressed yet. perf compresses one stream, cut into records.
#[derive(Default)]
struct Compressed {
    bytes: Vec<u8>,
    at: usize,
    decoder: Option<Decoder<'static>>,
    /// Where the record is in the recording.
    offset: u64,
    /// Whether the decoder may hold output that did not fit into the window.
    may_hold_more: bool,
}

/// Bytes from which whole records are taken.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy)]
enum Place {
    Plain,
    Inflated,
}

impl Window {
    fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Size of the first record, if the window holds all of it.
    fn whole_record(&self, offset: u64) -> Result<Option<usize>, DecodeError> {
        let held = self.held();
        let Some(size) = stated_size(held) else { return Ok(None) };
        if size < HEAD_BYTES {
            let found = format!("a record states a size of {size} bytes, and its head alone has {HEAD_BYTES}");
            return Err(DecodeError::new(offset, DecodeReason::Malformed(found)));
        }
        Ok((size <= held.len()).then_some(size))
    }

    /// Room behind what is held, which moves to the front.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.resize(WINDOW_BYTES, 0);
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
    }

    fn take(&mut self, size: usize, offset: u64) -> RawRecord<'_> {
        let record = &self.bytes[self.start..self.start + size];
        self.start += size;
        RawRecord {
            kind: u32::from_le_bytes([record[0], record[1], record[2], record[3]]),
            misc: u16::from_le_bytes([record[4], record[5]]),
            body: &record[HEAD_BYTES..],
            offset,
        }
    }
}

fn stated_size(held: &[u8]) -> Option<usize> {
    let head = held.first_chunk::<HEAD_BYTES>()?;
    Some(u16::from_le_bytes([head[6], head[7]]).into())
}

impl<R: Read> Input<R> {
    /// Records from where the reader is, `offset` bytes into the recording, for `length` bytes or to the end.
    pub fn new(reader: R, offset: u64, length: Option<u64>) -> Self {
        Self {
            reader,
            left: length.unwrap_or(u64::MAX),
            plain: Window::default(),
            offset,
            inflated: Window::default(),
            compressed: Compressed::default(),
        }
    }

    /// The next record; none at the end.
    pub fn next(&mut self) -> Result<Option<RawRecord<'_>>, DecodeError> {
        let (place, size) = loop {
            if let Some(size) = self.inflated.whole_record(self.compressed.offset)? {
                break (Place::Inflated, size);
            }
            if self.compressed.is_pending() {
                self.compressed.inflate(&mut self.inflated)?;
                continue;
            }
            let Some(size) = self.whole_plain_record()? else {
                return self.at_end().map(|()| None);
            };
            if !self.begin_compressed(size)? {
                break (Place::Plain, size);
            }
        };
        Ok(Some(match place {
            Place::Inflated => self.inflated.take(size, self.compressed.offset),
            Place::Plain => {
                self.offset += size as u64;
                self.plain.take(size, self.offset - size as u64)
            }
        }))
    }

    /// Passes over bytes that follow a record without being one.
    pub fn skip(&mut self, mut count: u64) -> Result<(), DecodeError> {
        while count > 0 {
            if self.plain.held().is_empty() && !self.fill()? {
                return Err(self.ends_within("data that follows a record"));
            }
            let passed = count.min(self.plain.held().len() as u64);
            self.plain.start += passed as usize;
            self.offset += passed;
            count -= passed;
        }
        Ok(())
    }

    fn whole_plain_record(&mut self) -> Result<Option<usize>, DecodeError> {
        loop {
            if let Some(size) = self.plain.whole_record(self.offset)? {
                return Ok(Some(size));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Whether there was more to read.
    fn fill(&mut self) -> Result<bool, DecodeError> {
        let room = self.plain.room();
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(room.len());
        let count = loop {
            match self.reader.read(&mut room[..wanted]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let count = count.map_err(|error| DecodeError::new(self.offset, DecodeReason::Read(error)))?;
        self.plain.end += count;
        if self.left != u64::MAX {
            self.left -= count as u64;
        }
        Ok(count > 0)
    }

    fn at_end(&self) -> Result<(), DecodeError> {
        let cut_section = self.left > 0 && self.left != u64::MAX;
        match () {
            () if !self.plain.held().is_empty() => Err(self.ends_within("a record")),
            () if cut_section => Err(self.ends_within("its data section")),
            () if !self.inflated.held().is_empty() => Err(self.ends_within("a record of a compressed one")),
            () => Ok(()),
        }
    }

    fn ends_within(&self, within: &'static str) -> DecodeError {
        DecodeError::new(self.offset, DecodeReason::EndsWithin { within })
    }

    /// If the next record is a compressed one, takes its data to be decompressed.
    fn begin_compressed(&mut self, size: usize) -> Result<bool, DecodeError> {
        let record = &self.plain.held()[..size];
        let data = match u32::from_le_bytes([record[0], record[1], record[2], record[3]]) {
            kind::COMPRESSED => &record[HEAD_BYTES..],
            kind::COMPRESSED2 => sized_payload(&record[HEAD_BYTES..]).ok_or_else(|| {
                let found = "a compressed record states more data than it has".to_owned();
                DecodeError::new(self.offset, DecodeReason::Malformed(found))
            })?,
            _ => return Ok(false),
        };
        self.compressed.bytes.clear();
        self.compressed.bytes.extend_from_slice(data);
        (self.compressed.at, self.compressed.offset) = (0, self.offset);
        self.plain.start += size;
        self.offset += size as u64;
        Ok(true)
    }
}

/// Data behind its length: the newer kind of compressed record, which is padded to 8 bytes.
fn sized_payload(body: &[u8]) -> Option<&[u8]> {
    let (length, data) = body.split_first_chunk()?;
    data.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

impl Compressed {
    fn is_pending(&self) -> bool {
        self.at < self.bytes.len() || self.may_hold_more
    }

    /// Decompresses as much as the window has room for: a record of 64 KiB may say that it is gigabytes.
    fn inflate(&mut self, window: &mut Window) -> Result<(), DecodeError> {
        let failed = |error| DecodeError::new(self.offset, DecodeReason::Malformed(format!("zstd says: {error}")));
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(failed)?),
        };
        let room = window.room();
        let room_bytes = room.len();
        let mut input = InBuffer::around(&self.bytes[self.at..]);
        let mut output = OutBuffer::around(room);
        decoder.run(&mut input, &mut output).map_err(failed)?;
        let (read, written) = (input.pos(), output.pos());
        self.at += read;
        self.may_hold_more = written == room_bytes;
        window.end += written;
        if read == 0 && written == 0 && self.at < self.bytes.len() {
            let found = "compressed data that does not go on".to_owned();
            return Err(DecodeError::new(self.offset, DecodeReason::Malformed(found)));
        }
        Ok(())
    }
}
