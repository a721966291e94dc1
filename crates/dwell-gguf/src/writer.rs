//! Writing the header of a GGUF file, version 3.

use std::io::{self, Write};

use crate::reader::MAGIC;
use crate::{MetadataValue, ValueType};

const VERSION: u32 = 3;

/// Writes the parts of a header in order and counts the bytes.
pub(crate) struct HeaderWriter<W> {
    out: W,
    written_bytes: u64,
}

impl<W: Write> HeaderWriter<W> {
    pub(crate) fn begin(out: W, tensor_count: u64, key_value_count: u64) -> io::Result<Self> {
        let mut header = HeaderWriter { out, written_bytes: 0 };
        header.bytes(&MAGIC)?;
        header.bytes(&VERSION.to_le_bytes())?;
        header.bytes(&tensor_count.to_le_bytes())?;
        header.bytes(&key_value_count.to_le_bytes())?;
        Ok(header)
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.bytes(&(text.len() as u64).to_le_bytes())?;
        self.bytes(text.as_bytes())
    }

    pub(crate) fn key_value(&mut self, key: &str, value: &MetadataValue) -> io::Result<()> {
        self.text(key)?;
        self.bytes(&value.value_type().id().to_le_bytes())?;
        self.value(value)
    }

    /// Beginning of an array; so many elements must follow.
    pub(crate) fn array(&mut self, key: &str, element_type: ValueType, count: u64) -> io::Result<()> {
        self.text(key)?;
        self.bytes(&ValueType::Array.id().to_le_bytes())?;
        self.bytes(&element_type.id().to_le_bytes())?;
        self.bytes(&count.to_le_bytes())
    }

    /// Entry of the tensor list; the offset counts from the section with the weights.
    pub(crate) fn tensor(&mut self, name: &str, dimensions: &[u64], type_id: u32, offset: u64) -> io::Result<()> {
        self.text(name)?;
        self.bytes(&(dimensions.len() as u32).to_le_bytes())?;
        dimensions.iter().try_for_each(|dimension| self.bytes(&dimension.to_le_bytes()))?;
        self.bytes(&type_id.to_le_bytes())?;
        self.bytes(&offset.to_le_bytes())
    }

    pub(crate) fn pad_to(&mut self, alignment_bytes: u64) -> io::Result<()> {
        let padding = self.written_bytes.next_multiple_of(alignment_bytes) - self.written_bytes;
        (0..padding).try_for_each(|_| self.bytes(&[0]))
    }

    fn value(&mut self, value: &MetadataValue) -> io::Result<()> {
        match value {
            MetadataValue::U8(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::I8(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::U16(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::I16(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::U32(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::I32(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::F32(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::Bool(value) => self.bytes(&[u8::from(*value)]),
            MetadataValue::Text(text) => self.text(text),
            MetadataValue::Array(array) => {
                self.bytes(&array.element_type.id().to_le_bytes())?;
                let elements = array.elements.as_deref().unwrap_or_default();
                self.bytes(&(elements.len() as u64).to_le_bytes())?;
                elements.iter().try_for_each(|element| self.value(element))
            }
            MetadataValue::U64(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::I64(value) => self.bytes(&value.to_le_bytes()),
            MetadataValue::F64(value) => self.bytes(&value.to_le_bytes()),
        }
    }
}
