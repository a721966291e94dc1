//! Reading numbers and texts from a file of known length, without trusting any length in it.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::error::GgufErrorKind;

/// A position in a file that knows how much is left.
pub(crate) struct ByteCursor<R> {
    reader: BufReader<R>,
    offset: u64,
    file_bytes: u64,
    /// Part of the file that is being read, for messages.
    pub(crate) section: &'static str,
}

macro_rules! little_endian {
    ($($name:ident),*) => {
        $(pub(crate) fn $name(&mut self) -> Result<$name, GgufErrorKind> {
            Ok($name::from_le_bytes(self.bytes()?))
        })*
    };
}

impl<R: Read + Seek> ByteCursor<R> {
    pub(crate) fn new(mut source: R) -> Result<Self, GgufErrorKind> {
        let section = "the length of the file";
        let failed = |source: io::Error| GgufErrorKind::Read { section, offset: 0, source };
        let file_bytes = source.seek(SeekFrom::End(0)).map_err(failed)?;
        source.rewind().map_err(failed)?;
        Ok(ByteCursor { reader: BufReader::new(source), offset: 0, file_bytes, section: "the header" })
    }

    little_endian!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufErrorKind> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Bytes of a text: a length, checked against the rest of the file before anything is allocated, and so many.
    pub(crate) fn text_bytes(&mut self) -> Result<Vec<u8>, GgufErrorKind> {
        let length = self.u64()?;
        self.require(length)?;
        let length = usize::try_from(length).map_err(|_| self.truncated(length))?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A key or a tensor name, which must be UTF-8 because two different names must not become the same.
    pub(crate) fn name(&mut self) -> Result<String, GgufErrorKind> {
        let bytes = self.text_bytes()?;
        String::from_utf8(bytes).map_err(|_| GgufErrorKind::NotText { section: self.section, offset: self.offset })
    }

    /// Go over so many bytes.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), GgufErrorKind> {
        self.require(bytes)?;
        let distance = i64::try_from(bytes).map_err(|_| self.truncated(bytes))?;
        self.reader.seek_relative(distance).map_err(|source| self.failed(source))?;
        self.offset += bytes;
        Ok(())
    }

    /// A count of things that take at least so many bytes each.
    pub(crate) fn check_count(&self, count: u64, least_bytes_each: u64) -> Result<(), GgufErrorKind> {
        let needed_bytes = u128::from(count) * u128::from(least_bytes_each);
        let found_bytes = self.file_bytes - self.offset;
        if needed_bytes <= u128::from(found_bytes) {
            return Ok(());
        }
        Err(GgufErrorKind::CountTooLarge {
            section: self.section,
            offset: self.offset,
            count,
            needed_bytes,
            found_bytes,
        })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufErrorKind> {
        let length = bytes.len() as u64;
        self.require(length)?;
        self.reader.read_exact(bytes).map_err(|source| self.failed(source))?;
        self.offset += length;
        Ok(())
    }

    fn require(&self, needed_bytes: u64) -> Result<(), GgufErrorKind> {
        if needed_bytes <= self.file_bytes - self.offset { Ok(()) } else { Err(self.truncated(needed_bytes)) }
    }

    fn truncated(&self, needed_bytes: u64) -> GgufErrorKind {
        GgufErrorKind::Truncated {
            section: self.section,
            offset: self.offset,
            needed_bytes,
            found_bytes: self.file_bytes - self.offset,
        }
    }

    fn failed(&self, source: io::Error) -> GgufErrorKind {
        GgufErrorKind::Read { section: self.section, offset: self.offset, source }
    }
}
