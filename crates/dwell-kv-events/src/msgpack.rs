//! Walks MessagePack without allocating: containers are told by their length, the caller reads what is in them.

use rmp::Marker;

use crate::DecodeError;

/// One value; of a container its head only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Nil,
    Bool,
    Signed(i64),
    /// A number that is too large for [`Value::Signed`].
    Unsigned(u64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Array(u32),
    /// Pairs of key and value.
    Map(u32),
    Extension,
}

impl Value<'_> {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool => "a truth value",
            Value::Signed(_) | Value::Unsigned(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Array(_) => "an array",
            Value::Map(_) => "a map",
            Value::Extension => "an extension",
        }
    }
}

/// Reads values one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    total_bytes: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total_bytes: bytes.len() }
    }

    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    /// The next value. The elements of a container are the values after it.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Value<'a>, DecodeError> {
        let [first] = self.array()?;
        Ok(match Marker::from_u8(first) {
            Marker::FixPos(number) => Value::Signed(number.into()),
            Marker::FixNeg(number) => Value::Signed(number.into()),
            Marker::Null | Marker::Reserved => Value::Nil,
            Marker::True | Marker::False => Value::Bool,
            Marker::U8 => Value::Signed(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Value::Signed(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Value::Signed(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => {
                let number = u64::from_be_bytes(self.array()?);
                i64::try_from(number).map_or(Value::Unsigned(number), Value::Signed)
            }
            Marker::I8 => Value::Signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Value::Signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Value::Signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Value::Signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Value::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Value::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(bytes) => Value::Text(self.take(bytes.into())?),
            Marker::Str8 => Value::Text(self.counted8()?),
            Marker::Str16 => Value::Text(self.counted16()?),
            Marker::Str32 => Value::Text(self.counted32()?),
            Marker::Bin8 => Value::Bytes(self.counted8()?),
            Marker::Bin16 => Value::Bytes(self.counted16()?),
            Marker::Bin32 => Value::Bytes(self.counted32()?),
            Marker::FixArray(values) => Value::Array(values.into()),
            Marker::Array16 => Value::Array(u16::from_be_bytes(self.array()?).into()),
            Marker::Array32 => Value::Array(u32::from_be_bytes(self.array()?)),
            Marker::FixMap(pairs) => Value::Map(pairs.into()),
            Marker::Map16 => Value::Map(u16::from_be_bytes(self.array()?).into()),
            Marker::Map32 => Value::Map(u32::from_be_bytes(self.array()?)),
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => {
                let bytes = u8::from_be_bytes(self.array()?);
                self.extension(bytes.into())?
            }
            Marker::Ext16 => {
                let bytes = u16::from_be_bytes(self.array()?);
                self.extension(bytes.into())?
            }
            Marker::Ext32 => {
                let bytes = u32::from_be_bytes(self.array()?);
                self.extension(bytes as usize)?
            }
        })
    }

    /// Passes over the next value with everything in it, however deep: nothing is remembered but a count.
    pub(crate) fn skip(&mut self) -> Result<(), DecodeError> {
        self.skip_values(1)
    }

    /// The same for several values.
    pub(crate) fn skip_values(&mut self, values: u64) -> Result<(), DecodeError> {
        let mut left = values;
        while left > 0 {
            left -= 1;
            let inside = match self.value()? {
                Value::Array(values) => u64::from(values),
                Value::Map(pairs) => 2 * u64::from(pairs),
                _ => 0,
            };
            left = left.saturating_add(inside);
        }
        Ok(())
    }

    fn extension(&mut self, bytes: usize) -> Result<Value<'a>, DecodeError> {
        // Before the bytes comes their type.
        self.take(bytes.saturating_add(1))?;
        Ok(Value::Extension)
    }

    fn counted8(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = u8::from_be_bytes(self.array()?);
        self.take(bytes.into())
    }

    fn counted16(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = u16::from_be_bytes(self.array()?);
        self.take(bytes.into())
    }

    fn counted32(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = u32::from_be_bytes(self.array()?);
        self.take(bytes as usize)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(DecodeError::Truncated { found_bytes: self.total_bytes }),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeError::Truncated { found_bytes: self.total_bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_nesting_is_passed_over_without_a_stack() {
        // A million arrays of one value each, inside one another.
        let mut bytes = vec![0x91; 1 << 20];
        bytes.extend([0xc0, 0x05]);
        let mut reader = Reader::new(&bytes);
        reader.skip().unwrap();
        assert_eq!(reader.value().unwrap(), Value::Signed(5));
    }

    #[test]
    fn a_container_that_claims_more_than_there_is_ends_with_the_bytes() {
        for head in [vec![0xdd, 0xff, 0xff, 0xff, 0xff], vec![0xdf, 0xff, 0xff, 0xff, 0xff]] {
            assert!(matches!(Reader::new(&head).skip(), Err(DecodeError::Truncated { found_bytes: 5 })));
        }
    }
}
