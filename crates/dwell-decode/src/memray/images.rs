//! Which program or library is mapped where, for stacks of native code.

use std::collections::BTreeMap;
use std::io::Read;

use rustc_hash::FxHashMap;

use super::input::Input;
use super::kind;
use crate::error::{DecodeError, DecodeReason};

/// Segments of one file; files have a handful.
const MAX_SEGMENTS_OF_IMAGE: u64 = 1 << 16;
/// Segments of all files that are mapped at a time.
const MAX_SEGMENTS: u64 = 1 << 20;
/// Distinct files.
const MAX_IMAGES: u64 = 1 << 16;
/// Bytes of a path.
const PATH_MAX_BYTES: usize = 16 * 1024;

const WITHIN: &str = "a list of mapped files";

/// A program or library, by number from 0.
pub type ImageId = u32;

/// Where an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    /// The file.
    pub image: ImageId,
    /// Its address as the file has it, before it was mapped.
    pub address: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    end: u64,
    image: ImageId,
    base: u64,
}

/// Files that are mapped now.
#[derive(Default)]
pub(super) struct Images {
    segments: BTreeMap<u64, Segment>,
    names: Vec<String>,
    numbers: FxHashMap<String, ImageId>,
}

impl Images {
    /// A new list of mapped files begins.
    pub fn clear(&mut self) {
        self.segments.clear();
    }

    /// Takes a file with its segments, which follow it in the capture.
    pub fn read_image(&mut self, input: &mut Input<impl Read>) -> Result<(), DecodeError> {
        let name = input.text(WITHIN, PATH_MAX_BYTES)?;
        let segments = input.varint(WITHIN)?;
        input.check_count("segments of a file", segments, MAX_SEGMENTS_OF_IMAGE)?;
        let base = input.word(WITHIN)?;
        let image = self.number(name).map_err(|reason| input.error(reason))?;
        for _ in 0..segments {
            let kind = input.byte(WITHIN)?;
            if kind != kind::SEGMENT {
                return Err(input.malformed(format!("a record of the kind {kind} stands where a segment should")));
            }
            let start = base.wrapping_add(input.word(WITHIN)?);
            let end = start.saturating_add(input.varint(WITHIN)?);
            self.segments.insert(start, Segment { end, image, base });
            input.check_count("segments of files", self.segments.len() as u64, MAX_SEGMENTS)?;
        }
        Ok(())
    }

    fn number(&mut self, name: String) -> Result<ImageId, DecodeReason> {
        if let Some(number) = self.numbers.get(&name) {
            return Ok(*number);
        }
        let found = self.names.len() as u64 + 1;
        if found > MAX_IMAGES {
            return Err(DecodeReason::TooMany { what: "mapped files", found, limit: MAX_IMAGES });
        }
        let number = self.names.len() as ImageId;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Ok(number)
    }

    pub fn name(&self, image: ImageId) -> &str {
        self.names.get(image as usize).map_or("", String::as_str)
    }

    /// Where the call is that returns to an address.
    ///
    /// Unwinders give the instruction behind a call, which may be the first one of the next function.
    pub fn find_call(&self, return_address: u64) -> Option<ImagePlace> {
        let address = return_address.checked_sub(1)?;
        let (_, segment) = self.segments.range(..=address).next_back()?;
        let is_within = address < segment.end;
        is_within.then(|| ImagePlace { image: segment.image, address: address.wrapping_sub(segment.base) })
    }
}
