//! Batches as lines of JSON, as `msgspec.json` writes them. They are turned into the payload that the server would have
//! sent, so that one decoder reads both.

use serde_json::Value;

use crate::DecodeError;

/// A batch from a line.
#[derive(Debug, PartialEq)]
pub struct JsonBatch {
    /// Its number, where the line has one beside the batch.
    pub sequence: Option<u64>,
    /// The payload that the server would have sent.
    pub payload: Vec<u8>,
}

/// Reads one line: a batch, with or without `seq` (or `sequence`) in it, or `seq` and `batch`.
pub fn batch_of_line(line: &[u8]) -> Result<JsonBatch, DecodeError> {
    let not_json = |error: serde_json::Error| DecodeError::NotJson { reason: error.to_string() };
    let mut value: Value = serde_json::from_slice(line).map_err(not_json)?;
    let mut sequence = None;
    if let Some(object) = value.as_object_mut() {
        let number = object.remove("seq").or_else(|| object.remove("sequence"));
        sequence = number.and_then(|number| number.as_u64());
        if let Some(batch) = object.remove("batch") {
            value = batch;
        }
    }
    let mut payload = Vec::with_capacity(line.len());
    put(&value, &mut payload).map_err(|error| DecodeError::NotJson { reason: error.to_string() })?;
    Ok(JsonBatch { sequence, payload })
}

/// Appends a value as MessagePack. serde_json bounds the depth.
fn put(value: &Value, out: &mut Vec<u8>) -> Result<(), rmp::encode::ValueWriteError> {
    match value {
        Value::Null => rmp::encode::write_nil(out).map_err(rmp::encode::ValueWriteError::InvalidMarkerWrite)?,
        Value::Bool(value) => {
            rmp::encode::write_bool(out, *value).map_err(rmp::encode::ValueWriteError::InvalidMarkerWrite)?;
        }
        Value::Number(number) => put_number(number, out)?,
        Value::String(text) => rmp::encode::write_str(out, text)?,
        Value::Array(values) => {
            rmp::encode::write_array_len(out, values.len() as u32)?;
            values.iter().try_for_each(|value| put(value, out))?;
        }
        Value::Object(pairs) => {
            rmp::encode::write_map_len(out, pairs.len() as u32)?;
            for (key, value) in pairs {
                rmp::encode::write_str(out, key)?;
                put(value, out)?;
            }
        }
    }
    Ok(())
}

fn put_number(number: &serde_json::Number, out: &mut Vec<u8>) -> Result<(), rmp::encode::ValueWriteError> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(signed), ..) => rmp::encode::write_sint(out, signed).map(|_| ()),
        (None, Some(unsigned), _) => rmp::encode::write_uint(out, unsigned).map(|_| ()),
        (None, None, float) => rmp::encode::write_f64(out, float.unwrap_or(f64::NAN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockHash, Event, decode_batch};

    #[test]
    fn lines_with_and_without_a_number_hold_the_same_batch() {
        let bare =
            batch_of_line(br#"[12.5, [["BlockRemoved", [18446744073709551615, -1, "aGFzaA=="], "GPU"]], 3]"#).unwrap();
        let wrapped = batch_of_line(
            br#"{"seq": 7, "batch": [12.5, [["BlockRemoved", [18446744073709551615, -1, "aGFzaA=="], "GPU"]], 3]}"#,
        )
        .unwrap();
        let inside = batch_of_line(
            br#"{"sequence": 7, "ts": 12.5, "data_parallel_rank": 3, "events":
                [{"type": "BlockRemoved", "block_hashes": [18446744073709551615, -1, "aGFzaA=="], "medium": "GPU"}]}"#,
        )
        .unwrap();
        let batch = decode_batch(&bare.payload).unwrap();
        let Event::Removed(removed) = &batch.events[0] else { panic!("{batch:?}") };
        let text = BlockHash::Text("aGFzaA==".into());
        assert_eq!(removed.block_hashes, [BlockHash::Unsigned(u64::MAX), BlockHash::Signed(-1), text]);
        assert_eq!((batch.unix_ns, batch.rank), (12_500_000_000, Some(3)));
        assert_eq!([bare.sequence, wrapped.sequence, inside.sequence], [None, Some(7), Some(7)]);
        assert_eq!(decode_batch(&wrapped.payload).unwrap(), batch);
        assert_eq!(decode_batch(&inside.payload).unwrap(), batch);
    }

    #[test]
    fn a_torn_line_is_an_error() {
        assert!(matches!(batch_of_line(br#"[12.5, [["Block"#), Err(DecodeError::NotJson { .. })));
    }
}
