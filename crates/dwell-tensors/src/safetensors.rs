//! Tensors of a stream as one safetensors file: header length, header as JSON, elements.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use dwell_codec::DType;
use dwell_files::AtomicFile;
use serde_json::{Map, Value, json};

use crate::{PacketEntry, TensorFile, TensorsError};

/// The longest header that readers of safetensors take.
const MAX_HEADER_BYTES: usize = 100_000_000;

/// Writes the chosen tensors as a safetensors file. Their keys are `name/step`, and `name/step/n` for further ones of
/// the same name and step. The result is how many there are.
pub fn export_safetensors(
    file: &TensorFile,
    path: &Path,
    is_chosen: impl Fn(&PacketEntry) -> bool,
) -> Result<u64, TensorsError> {
    let places: Vec<usize> = (0..file.packets().len()).filter(|place| is_chosen(&file.packets()[*place])).collect();
    let header = header(file, &places)?;
    let failed = |error| TensorsError::from_io("writing a safetensors file", path, error);
    let mut out = AtomicFile::create(path)?;
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    out.write_all(&header).map_err(failed)?;
    for &place in &places {
        out.write_all(&file.read_elements(place)?).map_err(failed)?;
    }
    out.commit()?;
    Ok(places.len() as u64)
}

/// The header of a file with these tensors, padded with blanks so that elements begin on 8 bytes.
fn header(file: &TensorFile, places: &[usize]) -> Result<Vec<u8>, TensorsError> {
    let mut members = Map::new();
    members.insert("__metadata__".to_owned(), json!(file.metadata()));
    let mut keys = HashMap::new();
    let mut offset = 0_u64;
    for &place in places {
        let entry = &file.packets()[place];
        let misfit = |reason: String| unconvertible(file, entry, reason);
        let dtype =
            dtype_name(entry.dtype).ok_or_else(|| misfit(format!("{}, which safetensors lacks", entry.dtype)))?;
        let end = offset.checked_add(entry.raw_bytes).ok_or_else(|| misfit("more bytes than can be".to_owned()))?;
        let about = json!({ "dtype": dtype, "shape": file.shape(entry), "data_offsets": [offset, end] });
        members.insert(free_key(file, entry, &mut keys), about);
        offset = end;
    }
    let mut header = Value::Object(members).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    match places.last() {
        Some(&place) if header.len() > MAX_HEADER_BYTES => Err(unconvertible(
            file,
            &file.packets()[place],
            format!(
                "a header of {} bytes, and safetensors takes {MAX_HEADER_BYTES}: choose fewer tensors",
                header.len()
            ),
        )),
        _ => Ok(header),
    }
}

/// The next key of an entry's name and step that is not taken; `taken` says for each key which number comes next.
fn free_key(file: &TensorFile, entry: &PacketEntry, taken: &mut HashMap<String, u64>) -> String {
    let first = format!("{}/{}", file.name(entry), entry.step);
    let mut key = first.clone();
    while taken.contains_key(&key) {
        let number = taken.entry(first.clone()).or_default();
        *number += 1;
        key = format!("{first}/{number}");
    }
    taken.insert(key.clone(), 0);
    key
}

fn unconvertible(file: &TensorFile, entry: &PacketEntry, reason: String) -> TensorsError {
    TensorsError::Unconvertible { name: file.name(entry).to_owned(), packet: entry.packet, reason }
}

fn dtype_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::I8 => "I8",
        DType::U16 => "U16",
        DType::I16 => "I16",
        DType::U32 => "U32",
        DType::I32 => "I32",
        DType::U64 => "U64",
        DType::I64 => "I64",
        DType::F8E4M3Fn => "F8_E4M3",
        DType::F8E4M3Fnuz => "F8_E4M3FNUZ",
        DType::F8E5M2 => "F8_E5M2",
        DType::F8E5M2Fnuz => "F8_E5M2FNUZ",
        DType::F8E8M0Fnu => "F8_E8M0",
        DType::F16 => "F16",
        DType::Bf16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::C64 => "C64",
        DType::C128 => return None,
    })
}
