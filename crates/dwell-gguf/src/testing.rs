//! Models of any architecture for tests: metadata and tensors are given, values are random.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::random::SplitMix64;
use crate::reader::DEFAULT_ALIGNMENT_BYTES;
use crate::tokenizer;
use crate::writer::HeaderWriter;
use crate::{GgmlType, MetadataValue};

/// Tokens of their vocabulary: one for each byte.
pub const VOCABULARY: u32 = tokenizer::LEAST_VOCABULARY;

/// Deviation of the random values: small, so that no architecture leaves the range of floats.
const DEVIATION: f32 = 0.02;

/// Writes a model with these keys and values, the vocabulary, and these tensors of 32-bit floats.
pub fn write_model(path: &Path, values: &[(String, MetadataValue)], tensors: &[(String, Vec<u64>)]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let vocabulary_values = tokenizer::values();
    let keys = (values.len() + vocabulary_values.len()) as u64 + tokenizer::ARRAYS;
    let mut header = HeaderWriter::begin(&mut out, tensors.len() as u64, keys)?;
    values.iter().chain(&vocabulary_values).try_for_each(|(key, value)| header.key_value(key, value))?;
    tokenizer::write_arrays(&mut header, VOCABULARY)?;
    let mut offset = 0;
    for (name, dimensions) in tensors {
        header.tensor(name, dimensions, GgmlType::F32.id, offset)?;
        offset += (4 * dimensions.iter().product::<u64>()).next_multiple_of(DEFAULT_ALIGNMENT_BYTES);
    }
    header.pad_to(DEFAULT_ALIGNMENT_BYTES)?;
    for (index, (_, dimensions)) in tensors.iter().enumerate() {
        let mut random = SplitMix64::for_stream(0, index as u64);
        let count = dimensions.iter().product::<u64>();
        (0..count).try_for_each(|_| out.write_all(&(random.next_normal() * DEVIATION).to_le_bytes()))?;
        let bytes = 4 * count;
        let padding = bytes.next_multiple_of(DEFAULT_ALIGNMENT_BYTES) - bytes;
        (0..padding).try_for_each(|_| out.write_all(&[0]))?;
    }
    out.flush()
}
