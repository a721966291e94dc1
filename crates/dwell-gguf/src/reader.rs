//! Reading the header of a GGUF file: everything but the weights.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use crate::cursor::ByteCursor;
use crate::error::{GgufError, GgufErrorKind};
use crate::{GgmlType, MetadataArray, MetadataValue, ValueType};

pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
pub(crate) const DEFAULT_ALIGNMENT_BYTES: u64 = 32;

/// Arrays with more elements than this are counted and not kept: per-layer arrays are shorter, vocabularies longer.
const MOST_KEPT_ELEMENTS: u64 = 4096;
/// A key's length, a value's type and one byte of value.
const LEAST_KEY_VALUE_BYTES: u64 = 8 + 4 + 1;
/// A name's length, the number of dimensions, a type and an offset.
const LEAST_TENSOR_INFO_BYTES: u64 = 8 + 4 + 4 + 8;
const MOST_DIMENSIONS: u32 = 4;

/// A tensor and where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name.
    pub name: String,
    /// Dimensions, the row first.
    pub dimensions: Vec<u64>,
    /// Type of its blocks.
    pub ggml_type: GgmlType,
    /// First byte, counted from the beginning of the file.
    pub file_offset: u64,
    /// Bytes that it takes.
    pub size_bytes: u64,
}

impl TensorInfo {
    /// Values in the tensor.
    pub fn values(&self) -> u64 {
        self.dimensions.iter().fold(1, |values, &dimension| values.saturating_mul(dimension))
    }
}

/// The header of a GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufFile {
    path: Option<PathBuf>,
    version: u32,
    alignment_bytes: u64,
    data_offset: u64,
    file_bytes: u64,
    metadata: BTreeMap<String, MetadataValue>,
    tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
}

impl GgufFile {
    /// Read the header of the file at this path.
    pub fn open(path: &Path) -> Result<GgufFile, GgufError> {
        let file = File::open(path).map_err(|source| GgufError::at(open_error(source), path))?;
        let mut gguf = read_header(file).map_err(|kind| GgufError::at(kind, path))?;
        gguf.path = Some(path.to_owned());
        Ok(gguf)
    }

    /// Read the header from anything that has a beginning and an end.
    pub fn read(source: impl Read + Seek) -> Result<GgufFile, GgufError> {
        read_header(source).map_err(GgufError::from)
    }

    /// The file, if it was opened by path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Tensors begin at multiples of this.
    pub fn alignment_bytes(&self) -> u64 {
        self.alignment_bytes
    }

    /// First byte of the section with the weights.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// All metadata, by key.
    pub fn metadata(&self) -> &BTreeMap<String, MetadataValue> {
        &self.metadata
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index.get(name).map(|&index| &self.tensors[index])
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |bytes, tensor| bytes.saturating_add(tensor.size_bytes))
    }

    /// Values of all tensors.
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.values()))
    }

    /// Value with this key.
    pub fn value(&self, key: &str) -> Option<&MetadataValue> {
        self.metadata.get(key)
    }

    /// Text with this key; `None` if there is none or it is not a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_text()
    }

    /// Integer with this key, of any width; `None` if there is none, it is negative or not an integer.
    pub fn u64(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// Float with this key, of either width; `None` if there is none or it is not a float.
    pub fn f64(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// Truth value with this key; `None` if there is none or it is not one.
    pub fn bool(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    /// Array with this key; `None` if there is none or it is not one.
    pub fn array(&self, key: &str) -> Option<&MetadataArray> {
        self.value(key)?.as_array()
    }

    /// The architecture, which is also the first part of the keys of its numbers.
    pub fn architecture(&self) -> Option<&str> {
        self.text("general.architecture")
    }

    /// The name of the model.
    pub fn name(&self) -> Option<&str> {
        self.text("general.name")
    }
}

fn open_error(source: io::Error) -> GgufErrorKind {
    match source.kind() {
        io::ErrorKind::NotFound => GgufErrorKind::Missing,
        _ => GgufErrorKind::Open { source },
    }
}

fn read_header(source: impl Read + Seek) -> Result<GgufFile, GgufErrorKind> {
    let mut cursor = ByteCursor::new(source)?;
    let version = read_version(&mut cursor)?;
    let tensor_count = cursor.u64()?;
    let key_value_count = cursor.u64()?;

    cursor.section = "the metadata";
    let metadata = read_metadata(&mut cursor, key_value_count)?;
    let alignment_bytes = alignment(&metadata)?;

    cursor.section = "the tensor list";
    let mut tensors = read_tensor_list(&mut cursor, tensor_count)?;
    let data_offset = cursor.offset().next_multiple_of(alignment_bytes);
    for tensor in &mut tensors {
        place(tensor, data_offset, alignment_bytes, cursor.file_bytes())?;
    }
    let tensor_index = index(&tensors)?;
    let file_bytes = cursor.file_bytes();
    Ok(GgufFile { path: None, version, alignment_bytes, data_offset, file_bytes, metadata, tensors, tensor_index })
}

fn read_version<R: Read + Seek>(cursor: &mut ByteCursor<R>) -> Result<u32, GgufErrorKind> {
    let found = cursor.bytes()?;
    if found != MAGIC {
        return Err(GgufErrorKind::NotGguf { found });
    }
    match cursor.u32()? {
        version @ (2 | 3) => Ok(version),
        swapped if (1..=3).contains(&swapped.swap_bytes()) => {
            Err(GgufErrorKind::BigEndian { version: swapped.swap_bytes() })
        }
        found => Err(GgufErrorKind::UnsupportedVersion { found }),
    }
}

fn read_metadata<R: Read + Seek>(
    cursor: &mut ByteCursor<R>,
    count: u64,
) -> Result<BTreeMap<String, MetadataValue>, GgufErrorKind> {
    cursor.check_count(count, LEAST_KEY_VALUE_BYTES)?;
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.name()?;
        let value_type = read_value_type(cursor, &key)?;
        let value = match value_type {
            ValueType::Array => MetadataValue::Array(read_array(cursor, &key)?),
            plain => read_plain(cursor, plain)?,
        };
        if metadata.contains_key(&key) {
            return Err(GgufErrorKind::DuplicateKey { key });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_value_type<R: Read + Seek>(cursor: &mut ByteCursor<R>, key: &str) -> Result<ValueType, GgufErrorKind> {
    let found = cursor.u32()?;
    ValueType::from_id(found).ok_or_else(|| GgufErrorKind::UnknownValueType { key: key.to_owned(), found })
}

fn read_array<R: Read + Seek>(cursor: &mut ByteCursor<R>, key: &str) -> Result<MetadataArray, GgufErrorKind> {
    let element_type = read_value_type(cursor, key)?;
    // llama.cpp refuses these too, and without them no file can make the reader recurse.
    if element_type == ValueType::Array {
        return Err(GgufErrorKind::NestedArray { key: key.to_owned() });
    }
    let count = cursor.u64()?;
    cursor.check_count(count, element_type.least_bytes())?;
    let elements = if count <= MOST_KEPT_ELEMENTS {
        Some((0..count).map(|_| read_plain(cursor, element_type)).collect::<Result<_, _>>()?)
    } else {
        skip_elements(cursor, element_type, count)?;
        None
    };
    Ok(MetadataArray { element_type, count, elements })
}

fn skip_elements<R: Read + Seek>(
    cursor: &mut ByteCursor<R>,
    element_type: ValueType,
    count: u64,
) -> Result<(), GgufErrorKind> {
    if element_type != ValueType::Text {
        return cursor.skip(count * element_type.least_bytes());
    }
    for _ in 0..count {
        let length = cursor.u64()?;
        cursor.skip(length)?;
    }
    Ok(())
}

fn read_plain<R: Read + Seek>(
    cursor: &mut ByteCursor<R>,
    value_type: ValueType,
) -> Result<MetadataValue, GgufErrorKind> {
    Ok(match value_type {
        ValueType::U8 => MetadataValue::U8(cursor.u8()?),
        ValueType::I8 => MetadataValue::I8(cursor.i8()?),
        ValueType::U16 => MetadataValue::U16(cursor.u16()?),
        ValueType::I16 => MetadataValue::I16(cursor.i16()?),
        ValueType::U32 => MetadataValue::U32(cursor.u32()?),
        ValueType::I32 => MetadataValue::I32(cursor.i32()?),
        ValueType::F32 => MetadataValue::F32(cursor.f32()?),
        ValueType::Bool => MetadataValue::Bool(cursor.u8()? != 0),
        ValueType::Text => MetadataValue::Text(String::from_utf8_lossy(&cursor.text_bytes()?).into_owned()),
        ValueType::Array => unreachable!("arrays are read by read_array, which refuses arrays of arrays"),
        ValueType::U64 => MetadataValue::U64(cursor.u64()?),
        ValueType::I64 => MetadataValue::I64(cursor.i64()?),
        ValueType::F64 => MetadataValue::F64(cursor.f64()?),
    })
}

fn alignment(metadata: &BTreeMap<String, MetadataValue>) -> Result<u64, GgufErrorKind> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT_BYTES),
        Some(MetadataValue::U32(bytes)) if bytes.is_power_of_two() => Ok((*bytes).into()),
        Some(MetadataValue::U32(bytes)) => Err(GgufErrorKind::BadAlignment { found: bytes.to_string() }),
        Some(other) => Err(GgufErrorKind::BadAlignment { found: format!("as {}", other.value_type().name()) }),
    }
}

/// Tensors with offsets as they are in the file, counted from the section with the weights.
fn read_tensor_list<R: Read + Seek>(cursor: &mut ByteCursor<R>, count: u64) -> Result<Vec<TensorInfo>, GgufErrorKind> {
    cursor.check_count(count, LEAST_TENSOR_INFO_BYTES)?;
    (0..count).map(|_| read_tensor(cursor)).collect()
}

fn read_tensor<R: Read + Seek>(cursor: &mut ByteCursor<R>) -> Result<TensorInfo, GgufErrorKind> {
    let name = cursor.name()?;
    let dimension_count = cursor.u32()?;
    if dimension_count > MOST_DIMENSIONS {
        return Err(GgufErrorKind::TooManyDimensions { tensor: name, found: dimension_count });
    }
    let dimensions: Vec<u64> = (0..dimension_count).map(|_| cursor.u64()).collect::<Result<_, _>>()?;
    let type_id = cursor.u32()?;
    let Some(ggml_type) = GgmlType::from_id(type_id) else {
        return Err(GgufErrorKind::UnknownTensorType { tensor: name, found: type_id });
    };
    let Some(size_bytes) = ggml_type.tensor_bytes(&dimensions) else {
        let GgmlType { name: type_name, block_values, .. } = ggml_type;
        return Err(GgufErrorKind::BadDimensions { tensor: name, dimensions, type_name, block_values });
    };
    Ok(TensorInfo { name, dimensions, ggml_type, file_offset: cursor.u64()?, size_bytes })
}

/// Turn the tensor's offset into one in the file, and check that all of it is there.
fn place(
    tensor: &mut TensorInfo,
    data_offset: u64,
    alignment_bytes: u64,
    file_bytes: u64,
) -> Result<(), GgufErrorKind> {
    let offset = tensor.file_offset;
    if !offset.is_multiple_of(alignment_bytes) {
        return Err(GgufErrorKind::Misaligned { tensor: tensor.name.clone(), offset, alignment_bytes });
    }
    let needed_bytes = u128::from(data_offset) + u128::from(offset) + u128::from(tensor.size_bytes);
    if needed_bytes > u128::from(file_bytes) {
        let tensor = tensor.name.clone();
        return Err(GgufErrorKind::TensorPastEnd { tensor, needed_bytes, found_bytes: file_bytes });
    }
    tensor.file_offset += data_offset;
    Ok(())
}

fn index(tensors: &[TensorInfo]) -> Result<HashMap<String, usize>, GgufErrorKind> {
    let mut index = HashMap::with_capacity(tensors.len());
    for (position, tensor) in tensors.iter().enumerate() {
        if index.insert(tensor.name.clone(), position).is_some() {
            return Err(GgufErrorKind::DuplicateTensor { tensor: tensor.name.clone() });
        }
    }
    Ok(index)
}
