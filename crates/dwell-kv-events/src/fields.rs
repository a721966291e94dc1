//! Single values of a payload, checked.

use crate::DecodeError;
use crate::event::BlockHash;
use crate::limits::{HASH_MAX_BYTES, HASHES_PER_EVENT_MAX, NAME_MAX_BYTES, TOKENS_PER_EVENT_MAX};
use crate::msgpack::{Reader, Value};

/// Memory is set aside for at most this many elements before they were seen.
pub(crate) const TRUSTED_ELEMENTS: usize = 1024;
/// Year 5138: beyond it a time is damage.
const UNIX_SECS_MAX: f64 = 1e11;

pub(crate) fn block_hashes(reader: &mut Reader<'_>) -> Result<Vec<BlockHash>, DecodeError> {
    let count = array("block_hashes", reader.value()?, HASHES_PER_EVENT_MAX)?;
    let mut hashes = Vec::with_capacity(count.min(TRUSTED_ELEMENTS));
    for _ in 0..count {
        let hash = optional_hash("a block hash", reader.value()?)?;
        hashes.push(hash.ok_or(DecodeError::Unfit { field: "a block hash", found: "nil", needed: A_HASH })?);
    }
    Ok(hashes)
}

pub(crate) fn token_ids(reader: &mut Reader<'_>) -> Result<Vec<i64>, DecodeError> {
    let head = reader.value()?;
    if head == Value::Nil {
        return Ok(Vec::new());
    }
    let count = array("token_ids", head, TOKENS_PER_EVENT_MAX)?;
    let mut tokens = Vec::with_capacity(count.min(TRUSTED_ELEMENTS));
    for _ in 0..count {
        match reader.value()? {
            Value::Signed(token) => tokens.push(token),
            other => return Err(unfit("a token id", other, "a whole number")),
        }
    }
    Ok(tokens)
}

const A_HASH: &str = "a number, bytes or text";

pub(crate) fn optional_hash(field: &'static str, value: Value<'_>) -> Result<Option<BlockHash>, DecodeError> {
    Ok(Some(match value {
        Value::Nil => return Ok(None),
        Value::Signed(number) => BlockHash::Signed(number),
        Value::Unsigned(number) => BlockHash::Unsigned(number),
        Value::Bytes(bytes) => {
            at_most("bytes of a block hash", bytes.len(), HASH_MAX_BYTES)?;
            BlockHash::Bytes(bytes.into())
        }
        Value::Text(bytes) => {
            // 4 characters of base64 are 3 bytes.
            at_most("letters of a block hash", bytes.len(), 2 * HASH_MAX_BYTES)?;
            BlockHash::Text(text(field, bytes)?.into())
        }
        other => return Err(unfit(field, other, A_HASH)),
    }))
}

pub(crate) fn unix_ns(value: Value<'_>) -> Result<u64, DecodeError> {
    let secs = match value {
        Value::Float(secs) => secs,
        Value::Signed(secs) => secs as f64,
        other => return Err(unfit("ts", other, "a number")),
    };
    match (0.0..UNIX_SECS_MAX).contains(&secs) {
        // A double of today has steps of 0.24 µs, so nothing is lost by cutting here.
        true => Ok((secs * 1e9) as u64),
        false => Err(DecodeError::Unfit { field: "ts", found: "no moment", needed: "seconds since the epoch" }),
    }
}

pub(crate) fn optional_u32(field: &'static str, value: Value<'_>) -> Result<Option<u32>, DecodeError> {
    let needed = "a whole number below 2^32";
    match value {
        Value::Nil => Ok(None),
        Value::Signed(number) => match u32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(DecodeError::Unfit { field, found: "another number", needed }),
        },
        other => Err(unfit(field, other, needed)),
    }
}

pub(crate) fn optional_name(field: &'static str, value: Value<'_>) -> Result<Option<Box<str>>, DecodeError> {
    match value {
        Value::Nil => Ok(None),
        Value::Text(bytes) => {
            at_most("bytes of a name", bytes.len(), NAME_MAX_BYTES)?;
            Ok(Some(text(field, bytes)?.into()))
        }
        other => Err(unfit(field, other, "text")),
    }
}

pub(crate) fn key<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match reader.value()? {
        Value::Text(name) => Ok(name),
        other => Err(unfit("a field's name", other, "text")),
    }
}

fn text<'a>(field: &'static str, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Unfit {
        field,
        found: "bytes that are no UTF-8",
        needed: "text",
    })
}

pub(crate) fn array(what: &'static str, value: Value<'_>, limit: usize) -> Result<usize, DecodeError> {
    match value {
        Value::Array(count) => at_most(what, count as usize, limit).map(|()| count as usize),
        other => Err(unfit(what, other, "an array")),
    }
}

pub(crate) fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), DecodeError> {
    if found <= limit { Ok(()) } else { Err(DecodeError::TooMany { what, found, limit }) }
}

pub(crate) fn unfit(field: &'static str, found: Value<'_>, needed: &'static str) -> DecodeError {
    DecodeError::Unfit { field, found: found.kind(), needed }
}
