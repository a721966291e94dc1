//! GGUF files put together byte by byte, independently of the writer under test.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::Cursor;

use dwell_gguf::{GgufError, GgufErrorKind, GgufFile};

pub const U32: u32 = 4;
pub const BOOL: u32 = 7;
pub const TEXT: u32 = 8;
pub const ARRAY: u32 = 9;

/// A file under construction: the counts are those of the entries that were added.
#[derive(Clone)]
pub struct FileBuilder {
    pub magic: [u8; 4],
    pub version: u32,
    pub alignment: usize,
    key_values: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
}

impl FileBuilder {
    pub fn new() -> FileBuilder {
        FileBuilder {
            magic: *b"GGUF",
            version: 3,
            alignment: 32,
            key_values: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    pub fn key_value(mut self, key: &str, value_type: u32, value: &[u8]) -> FileBuilder {
        self.key_values.push([&text(key)[..], &value_type.to_le_bytes(), value].concat());
        self
    }

    pub fn u32(self, key: &str, value: u32) -> FileBuilder {
        self.key_value(key, U32, &value.to_le_bytes())
    }

    pub fn text(self, key: &str, value: &str) -> FileBuilder {
        self.key_value(key, TEXT, &text(value))
    }

    /// An array with this count and these bytes, whether they agree or not.
    pub fn array(self, key: &str, element_type: u32, count: u64, elements: &[u8]) -> FileBuilder {
        let value = [&element_type.to_le_bytes()[..], &count.to_le_bytes(), elements].concat();
        self.key_value(key, ARRAY, &value)
    }

    pub fn u32s(self, key: &str, values: &[u32]) -> FileBuilder {
        let elements: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, U32, values.len() as u64, &elements)
    }

    pub fn tensor(mut self, name: &str, dimensions: &[u64], type_id: u32, offset: u64) -> FileBuilder {
        let mut entry = [text(name), (dimensions.len() as u32).to_le_bytes().to_vec()].concat();
        dimensions.iter().for_each(|dimension| entry.extend(dimension.to_le_bytes()));
        entry.extend(type_id.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.tensors.push(entry);
        self
    }

    pub fn data(mut self, bytes: usize) -> FileBuilder {
        self.data = vec![0xaa; bytes];
        self
    }

    /// Everything before the data, without the padding.
    pub fn header(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.key_values.len() as u64).to_le_bytes());
        bytes.extend(self.key_values.concat());
        bytes.extend(self.tensors.concat());
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(&self.data);
        bytes
    }

    pub fn read(&self) -> Result<GgufFile, GgufError> {
        GgufFile::read(Cursor::new(self.bytes()))
    }

    pub fn error(&self) -> GgufErrorKind {
        self.read().expect_err("the file is not good").kind
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}
