//! From a payload to events.
//!
//! msgspec writes a struct as an array of its fields or as a map with their names; which of the two has changed from
//! version to version, for batches and for events apart. Both are read, in any mixture. Trailing fields and keys that
//! are not known are passed over and counted, and so are events with an unknown tag.

use crate::DecodeError;
use crate::event::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch};
use crate::fields::{
    TRUSTED_ELEMENTS, array, at_most, block_hashes, key, optional_hash, optional_name, optional_u32, token_ids, unfit,
    unix_ns,
};
use crate::limits::{EVENTS_PER_BATCH_MAX, HASHES_PER_BATCH_MAX, PAYLOAD_MAX_BYTES, TOKENS_PER_BATCH_MAX};
use crate::msgpack::{Reader, Value};

/// Decodes the payload of one message.
pub fn decode_batch(payload: &[u8]) -> Result<EventBatch, DecodeError> {
    at_most("bytes", payload.len(), PAYLOAD_MAX_BYTES)?;
    let mut reader = Reader::new(payload);
    let mut batch = BatchFields::default();
    match reader.value()? {
        Value::Array(values) => {
            for place in 0..values {
                batch.read(BatchField::at(place), &mut reader)?;
            }
        }
        Value::Map(pairs) => {
            for _ in 0..pairs {
                let field = BatchField::named(key(&mut reader)?);
                batch.read(field, &mut reader)?;
            }
        }
        other => return Err(unfit("a batch", other, "an array or a map")),
    }
    match reader.rest_bytes() {
        0 => batch.finish(),
        bytes => Err(DecodeError::TrailingBytes { bytes }),
    }
}

#[derive(Clone, Copy)]
enum BatchField {
    Time,
    Events,
    Rank,
    Unknown,
}

impl BatchField {
    fn at(place: u32) -> Self {
        [Self::Time, Self::Events, Self::Rank].get(place as usize).copied().unwrap_or(Self::Unknown)
    }

    fn named(name: &[u8]) -> Self {
        match name {
            b"ts" => Self::Time,
            b"events" => Self::Events,
            b"data_parallel_rank" | b"attn_dp_rank" => Self::Rank,
            _ => Self::Unknown,
        }
    }
}

#[derive(Default)]
struct BatchFields {
    unix_ns: Option<u64>,
    events: Option<Vec<Event>>,
    rank: Option<u32>,
    unknown_events: u64,
    unknown_fields: u64,
}

impl BatchFields {
    fn read(&mut self, field: BatchField, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match field {
            BatchField::Time => self.unix_ns = Some(unix_ns(reader.value()?)?),
            BatchField::Events => self.events = Some(self.read_events(reader)?),
            BatchField::Rank => self.rank = optional_u32("data_parallel_rank", reader.value()?)?,
            BatchField::Unknown => {
                self.unknown_fields += 1;
                reader.skip()?;
            }
        }
        Ok(())
    }

    fn read_events(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Event>, DecodeError> {
        let count = array("events", reader.value()?, EVENTS_PER_BATCH_MAX)?;
        let mut events = Vec::with_capacity(count.min(TRUSTED_ELEMENTS));
        let (mut hashes, mut tokens) = (0, 0);
        for _ in 0..count {
            match self.read_event(reader)? {
                Some(event) => {
                    let (more_hashes, more_tokens) = event.sizes();
                    (hashes, tokens) = (hashes + more_hashes, tokens + more_tokens);
                    at_most("block hashes of a batch", hashes, HASHES_PER_BATCH_MAX)?;
                    at_most("token ids of a batch", tokens, TOKENS_PER_BATCH_MAX)?;
                    events.push(event);
                }
                None => self.unknown_events += 1,
            }
        }
        Ok(events)
    }

    /// One event; none if its tag is not known.
    fn read_event(&mut self, reader: &mut Reader<'_>) -> Result<Option<Event>, DecodeError> {
        let mut fields = EventFields::default();
        let tag = match reader.value()? {
            Value::Array(0) => return Err(DecodeError::MissingField { field: "tag", of: "an event" }),
            Value::Array(values) => {
                let rest = values - 1;
                let Some(tag) = Tag::of(reader.value()?)? else {
                    reader.skip_values(rest.into())?;
                    return Ok(None);
                };
                for place in 0..rest {
                    fields.read(tag.field_at(place), reader)?;
                }
                tag
            }
            Value::Map(pairs) => {
                let Some(tag) = tag_of_map(*reader, pairs)? else {
                    reader.skip_values(2 * u64::from(pairs))?;
                    return Ok(None);
                };
                for _ in 0..pairs {
                    let field = EventField::named(key(reader)?);
                    fields.read(field, reader)?;
                }
                tag
            }
            other => return Err(unfit("an event", other, "an array or a map")),
        };
        self.unknown_fields += fields.unknown_fields;
        fields.finish(tag).map(Some)
    }

    fn finish(self) -> Result<EventBatch, DecodeError> {
        let missing = |field| DecodeError::MissingField { field, of: "a batch" };
        Ok(EventBatch {
            unix_ns: self.unix_ns.ok_or(missing("ts"))?,
            events: self.events.ok_or(missing("events"))?,
            rank: self.rank,
            unknown_events: self.unknown_events,
            unknown_fields: self.unknown_fields,
        })
    }
}

#[derive(Clone, Copy)]
enum Tag {
    Stored,
    Removed,
    Cleared,
}

impl Tag {
    fn of(value: Value<'_>) -> Result<Option<Self>, DecodeError> {
        let Value::Text(name) = value else { return Err(unfit("the tag of an event", value, "text")) };
        Ok(match name {
            b"BlockStored" => Some(Self::Stored),
            b"BlockRemoved" => Some(Self::Removed),
            b"AllBlocksCleared" => Some(Self::Cleared),
            _ => None,
        })
    }

    /// The order in which msgspec writes the fields behind the tag. vLLM and SGLang agree as far as `medium`.
    fn field_at(self, place: u32) -> EventField {
        use EventField::{BlockHashes, BlockSize, Group, LoraName, Medium, Parent, Passed, TokenIds};
        let order: &[EventField] = match self {
            Self::Stored => {
                &[BlockHashes, Parent, TokenIds, BlockSize, Passed, Medium, LoraName, Passed, Group, Passed, Passed]
            }
            Self::Removed => &[BlockHashes, Medium, Group],
            Self::Cleared => &[],
        };
        order.get(place as usize).copied().unwrap_or(EventField::Unknown)
    }
}

/// Looks ahead for the tag, which decides whether the other fields are looked at.
fn tag_of_map(mut reader: Reader<'_>, pairs: u32) -> Result<Option<Tag>, DecodeError> {
    for _ in 0..pairs {
        if key(&mut reader)? == b"type" {
            return Tag::of(reader.value()?);
        }
        reader.skip()?;
    }
    Err(DecodeError::MissingField { field: "type", of: "an event" })
}

#[derive(Clone, Copy)]
enum EventField {
    BlockHashes,
    Parent,
    TokenIds,
    BlockSize,
    Medium,
    LoraName,
    Group,
    /// Known, and of no use here.
    Passed,
    Unknown,
}

impl EventField {
    fn named(name: &[u8]) -> Self {
        match name {
            b"block_hashes" => Self::BlockHashes,
            b"parent_block_hash" => Self::Parent,
            b"token_ids" => Self::TokenIds,
            b"block_size" => Self::BlockSize,
            b"medium" => Self::Medium,
            b"lora_name" => Self::LoraName,
            b"group_idx" => Self::Group,
            b"type"
            | b"lora_id"
            | b"extra_keys"
            | b"kv_cache_spec_kind"
            | b"kv_cache_spec_sliding_window"
            | b"locality"
            | b"ownership"
            | b"session_id"
            | b"cache_salt" => Self::Passed,
            _ => Self::Unknown,
        }
    }
}

#[derive(Default)]
struct EventFields {
    block_hashes: Option<Vec<BlockHash>>,
    parent: Option<BlockHash>,
    token_ids: Vec<i64>,
    block_size: u32,
    lora_name: Option<Box<str>>,
    medium: Option<Box<str>>,
    group: Option<u32>,
    unknown_fields: u64,
}

impl EventFields {
    fn read(&mut self, field: EventField, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match field {
            EventField::BlockHashes => self.block_hashes = Some(block_hashes(reader)?),
            EventField::Parent => self.parent = optional_hash("parent_block_hash", reader.value()?)?,
            EventField::TokenIds => self.token_ids = token_ids(reader)?,
            EventField::BlockSize => {
                self.block_size = optional_u32("block_size", reader.value()?)?.unwrap_or(0);
            }
            EventField::Medium => self.medium = optional_name("medium", reader.value()?)?,
            EventField::LoraName => match reader.value()? {
                value @ (Value::Text(_) | Value::Nil) => self.lora_name = optional_name("lora_name", value)?,
                // SGLang has had other things in this place.
                other => self.pass_over(other, reader)?,
            },
            EventField::Group => self.group = optional_u32("group_idx", reader.value()?)?,
            EventField::Passed => reader.skip()?,
            EventField::Unknown => {
                self.unknown_fields += 1;
                reader.skip()?;
            }
        }
        Ok(())
    }

    /// Passes over a value whose head was read already.
    fn pass_over(&mut self, head: Value<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.unknown_fields += 1;
        match head {
            Value::Array(values) => reader.skip_values(values.into()),
            Value::Map(pairs) => reader.skip_values(2 * u64::from(pairs)),
            _ => Ok(()),
        }
    }

    fn finish(self, tag: Tag) -> Result<Event, DecodeError> {
        let hashes = |of| self.block_hashes.ok_or(DecodeError::MissingField { field: "block_hashes", of });
        Ok(match tag {
            Tag::Stored => Event::Stored(BlockStored {
                block_hashes: hashes("BlockStored")?,
                parent: self.parent,
                token_ids: self.token_ids,
                block_size: self.block_size,
                lora_name: self.lora_name,
                medium: self.medium,
                group: self.group,
            }),
            Tag::Removed => Event::Removed(BlockRemoved {
                block_hashes: hashes("BlockRemoved")?,
                medium: self.medium,
                group: self.group,
            }),
            Tag::Cleared => Event::Cleared,
        })
    }
}
