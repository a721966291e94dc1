//! The head of a perf.data file: where its events, its data and what it says about itself are.
//!
//! ```text
//! file:  "PERFILE2", size of the head, size of an attribute; offset and size of attributes, data, event types;
//!        256 bits for the sections that follow the data, each with an offset and a size in a table there
//! pipe:  "PERFILE2", 16; attributes and sections are records
//! ```

use std::io::{self, Read, Seek, SeekFrom};

use super::attr::Attr;
use super::fields::Fields;
use super::recording::{Event, Recording, feature};
use crate::error::{DecodeError, DecodeReason};

const MAGIC: &[u8; 8] = b"PERFILE2";
const FOREIGN_MAGIC: &[u8; 8] = b"2ELIFREP";
const FIRST_MAGIC: &[u8; 8] = b"PERFFILE";

/// Size of the head of a recording that went through a pipe.
const PIPE_HEAD_BYTES: u64 = 16;
const FILE_HEAD_BYTES: u64 = 104;

/// Events that are read at most; perf itself has a few for each PMU.
pub(super) const MAX_EVENTS: usize = 4096;
/// Ids that are read at most: each event has one for each processor.
pub(super) const MAX_IDS: usize = 1 << 20;
/// Bytes of a section that are read at most; that of build ids is the largest.
const MAX_SECTION_BYTES: u64 = 64 << 20;

/// Offset and size of a part of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub offset: u64,
    pub size: u64,
}

/// What stands at the start of a recording.
pub(super) enum Head {
    /// Everything that follows is records.
    Pipe,
    /// Records are in a section.
    File(FileHead),
}

pub(super) struct FileHead {
    attr_bytes: u64,
    attrs: Section,
    pub data: Section,
    features: [u64; 4],
}

/// Reads the head, whatever the form.
pub(super) fn read_head(reader: &mut impl Read) -> Result<Head, DecodeError> {
    let mut start = [0; PIPE_HEAD_BYTES as usize];
    read_exact(reader, &mut start, 0, "its head")?;
    match start.first_chunk::<8>() {
        Some(MAGIC) => {}
        Some(FOREIGN_MAGIC) => return Err(unsupported("a perf.data file of a machine with the other byte order")),
        Some(FIRST_MAGIC) => return Err(unsupported("a perf.data file of the first version, from before Linux 3.2")),
        _ => return Err(malformed(0, "no perf.data file: it does not begin with PERFILE2")),
    }
    let size =
        u64::from_le_bytes([start[8], start[9], start[10], start[11], start[12], start[13], start[14], start[15]]);
    match size {
        PIPE_HEAD_BYTES => Ok(Head::Pipe),
        FILE_HEAD_BYTES.. => read_file_head(reader).map(Head::File),
        _ => Err(malformed(8, &format!("a head of {size} bytes, and files have {FILE_HEAD_BYTES}"))),
    }
}

fn read_file_head(reader: &mut impl Read) -> Result<FileHead, DecodeError> {
    let mut rest = [0; (FILE_HEAD_BYTES - PIPE_HEAD_BYTES) as usize];
    read_exact(reader, &mut rest, PIPE_HEAD_BYTES, "its head")?;
    let mut fields = Fields(&rest);
    let mut field = || fields.u64().expect("the array has this many fields");
    let attr_bytes = field();
    let mut section = || Section { offset: field(), size: field() };
    let (attrs, data, _event_types) = (section(), section(), section());
    Ok(FileHead { attr_bytes, attrs, data, features: [field(), field(), field(), field()] })
}

impl FileHead {
    /// Where the events are described.
    pub fn attrs_offset(&self) -> u64 {
        self.attrs.offset
    }

    /// Events with their ids.
    pub fn read_events(&self, reader: &mut (impl Read + Seek)) -> Result<Vec<Event>, DecodeError> {
        // Each attribute is followed by the place of its ids.
        const IDS_SECTION_BYTES: u64 = 16;
        let count = self.attrs.size.checked_div(self.attr_bytes).unwrap_or(0);
        if self.attr_bytes <= IDS_SECTION_BYTES || count == 0 {
            return Err(malformed(16, "no event is described"));
        }
        at_most("events", self.attrs.offset, count, MAX_EVENTS as u64)?;
        let bytes = read_section(reader, self.attrs)?;
        let event = |(index, entry): (usize, &[u8])| {
            let offset = self.attrs.offset + index as u64 * self.attr_bytes;
            self.read_event(reader, entry, offset)
        };
        bytes.chunks_exact(self.attr_bytes as usize).enumerate().map(event).collect()
    }

    fn read_event(&self, reader: &mut (impl Read + Seek), entry: &[u8], offset: u64) -> Result<Event, DecodeError> {
        let (attr_bytes, ids_bytes) = entry.split_at(entry.len() - 16);
        let mut fields = Fields(ids_bytes);
        let ids = fields.u64().zip(fields.u64()).map(|(offset, size)| Section { offset, size }).unwrap_or_default();
        at_most("ids of an event", offset, ids.size / 8, MAX_IDS as u64)?;
        let (attr, _) = Attr::parse(attr_bytes).ok_or_else(|| malformed(offset, "an event with an impossible size"))?;
        Ok(Event::new(attr, parse_ids(&read_section(reader, ids)?)))
    }

    /// Takes what the recording says about itself. A file that is cut short has lost this part, which is at its end.
    pub fn read_features(&self, reader: &mut (impl Read + Seek), recording: &mut Recording) -> Result<(), DecodeError> {
        let is_set = |feature: &u64| self.features[(feature / 64) as usize] >> (feature % 64) & 1 != 0;
        let table_offset = self.data.offset.saturating_add(self.data.size);
        let present = (0..256).filter(is_set).enumerate();
        for (row, feature) in present.filter(|(_, feature)| feature::READ.contains(feature)) {
            let place = Section { offset: table_offset.saturating_add(row as u64 * 16), size: 16 };
            let entry = read_section(reader, place)?;
            let mut fields = Fields(&entry);
            let Some((offset, size)) = fields.u64().zip(fields.u64()) else { return Ok(()) };
            if size <= MAX_SECTION_BYTES {
                recording.take_feature(feature, &read_section(reader, Section { offset, size })?);
            }
        }
        Ok(())
    }
}

pub(super) fn parse_ids(bytes: &[u8]) -> Vec<u64> {
    let (ids, _) = bytes.as_chunks::<8>();
    ids.iter().map(|id| u64::from_le_bytes(*id)).collect()
}

/// As much of a section as there is: memory is taken for what was read, not for what was stated.
fn read_section(reader: &mut (impl Read + Seek), section: Section) -> Result<Vec<u8>, DecodeError> {
    let failed = |error| DecodeError::new(section.offset, DecodeReason::Read(error));
    let mut bytes = Vec::new();
    // No file is that long, and seeking further is an error.
    if i64::try_from(section.offset).is_err() {
        return Ok(bytes);
    }
    reader.seek(SeekFrom::Start(section.offset)).map_err(failed)?;
    reader.take(section.size).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn read_exact(reader: &mut impl Read, bytes: &mut [u8], at: u64, within: &'static str) -> Result<(), DecodeError> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => DecodeError::new(at, DecodeReason::EndsWithin { within }),
        _ => DecodeError::new(at, DecodeReason::Read(error)),
    })
}

pub(super) fn at_most(what: &'static str, offset: u64, found: u64, limit: u64) -> Result<(), DecodeError> {
    if found > limit { Err(DecodeError::new(offset, DecodeReason::TooMany { what, found, limit })) } else { Ok(()) }
}

pub(super) fn malformed(offset: u64, found: &str) -> DecodeError {
    DecodeError::new(offset, DecodeReason::Malformed(found.to_owned()))
}

fn unsupported(found: &str) -> DecodeError {
    DecodeError::new(0, DecodeReason::Unsupported(found.to_owned()))
}
