//! The values of the metadata.

/// Type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit integer.
    I8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit integer.
    I16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit integer.
    I32,
    /// 32-bit float.
    F32,
    /// Truth value of one byte.
    Bool,
    /// UTF-8 text.
    Text,
    /// Values of one type.
    Array,
    /// 64-bit unsigned integer.
    U64,
    /// 64-bit integer.
    I64,
    /// 64-bit float.
    F64,
}

impl ValueType {
    /// Every type; the position is its number in the file.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::Text,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with this number, or `None` if GGUF has none.
    pub fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Number of the type in the file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The name used in messages.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::Text => "text",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }

    /// Fewest bytes that a value takes in the file: all of them for numbers, the length for texts.
    pub(crate) fn least_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::Text | ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::Array => 12,
        }
    }
}

/// An array of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataArray {
    /// Type of the elements.
    pub element_type: ValueType,
    /// How many there are in the file.
    pub count: u64,
    /// The elements, or `None` where there are too many to keep (the tokens of a vocabulary).
    pub elements: Option<Vec<MetadataValue>>,
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetadataValue {
    /// 8-bit unsigned integer.
    U8(u8),
    /// 8-bit integer.
    I8(i8),
    /// 16-bit unsigned integer.
    U16(u16),
    /// 16-bit integer.
    I16(i16),
    /// 32-bit unsigned integer.
    U32(u32),
    /// 32-bit integer.
    I32(i32),
    /// 32-bit float.
    F32(f32),
    /// Truth value.
    Bool(bool),
    /// Text; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Values of one type.
    Array(MetadataArray),
    /// 64-bit unsigned integer.
    U64(u64),
    /// 64-bit integer.
    I64(i64),
    /// 64-bit float.
    F64(f64),
}

impl MetadataValue {
    /// Type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            MetadataValue::U8(_) => ValueType::U8,
            MetadataValue::I8(_) => ValueType::I8,
            MetadataValue::U16(_) => ValueType::U16,
            MetadataValue::I16(_) => ValueType::I16,
            MetadataValue::U32(_) => ValueType::U32,
            MetadataValue::I32(_) => ValueType::I32,
            MetadataValue::F32(_) => ValueType::F32,
            MetadataValue::Bool(_) => ValueType::Bool,
            MetadataValue::Text(_) => ValueType::Text,
            MetadataValue::Array(_) => ValueType::Array,
            MetadataValue::U64(_) => ValueType::U64,
            MetadataValue::I64(_) => ValueType::I64,
            MetadataValue::F64(_) => ValueType::F64,
        }
    }

    /// The value if it is an integer of any width that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            MetadataValue::U8(value) => Some(value.into()),
            MetadataValue::U16(value) => Some(value.into()),
            MetadataValue::U32(value) => Some(value.into()),
            MetadataValue::U64(value) => Some(value),
            MetadataValue::I8(value) => value.try_into().ok(),
            MetadataValue::I16(value) => value.try_into().ok(),
            MetadataValue::I32(value) => value.try_into().ok(),
            MetadataValue::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The value if it is a float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            MetadataValue::F32(value) => Some(value.into()),
            MetadataValue::F64(value) => Some(value),
            _ => None,
        }
    }

    /// The value if it is a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            MetadataValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The value if it is a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value if it is an array.
    pub fn as_array(&self) -> Option<&MetadataArray> {
        match self {
            MetadataValue::Array(array) => Some(array),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_its_own_number() {
        for value_type in ValueType::ALL {
            assert_eq!(ValueType::from_id(value_type.id()), Some(value_type));
        }
        assert_eq!(ValueType::from_id(13), None);
    }

    #[test]
    fn only_integers_that_are_not_negative_read_as_u64() {
        assert_eq!(MetadataValue::I32(7).as_u64(), Some(7));
        assert_eq!(MetadataValue::U8(7).as_u64(), Some(7));
        assert_eq!(MetadataValue::I8(-1).as_u64(), None);
        assert_eq!(MetadataValue::F32(1.0).as_u64(), None);
    }
}
