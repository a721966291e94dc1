//! What a server says about its KV cache.

use std::fmt;

/// One message of a server: what happened to its cache in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct EventBatch {
    /// When the server made it, in nanoseconds since the epoch. It is sent as seconds in a double: steps of 0.24 µs.
    pub unix_ns: u64,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Data-parallel rank of the server.
    pub rank: Option<u32>,
    /// Events of kinds that are not known; they are left out.
    pub unknown_events: u64,
    /// Fields that are not known; they are left out.
    pub unknown_fields: u64,
}

/// One thing that happened to the cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Blocks came into the cache, or were found in it again.
    Stored(BlockStored),
    /// Blocks left it.
    Removed(BlockRemoved),
    /// All blocks left it.
    Cleared,
}

impl Event {
    /// How many hashes and token ids it has.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        match self {
            Event::Stored(stored) => (stored.block_hashes.len(), stored.token_ids.len()),
            Event::Removed(removed) => (removed.block_hashes.len(), 0),
            Event::Cleared => (0, 0),
        }
    }
}

/// Blocks that came into the cache. Each is the parent of the next.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockStored {
    /// The blocks.
    pub block_hashes: Vec<BlockHash>,
    /// The block before the first of them.
    pub parent: Option<BlockHash>,
    /// Tokens of all of them; none if the server does not say.
    pub token_ids: Vec<i64>,
    /// Tokens of one of them; 0 if the server does not say.
    pub block_size: u32,
    /// Name of the adapter that they were computed with.
    pub lora_name: Option<Box<str>>,
    /// Where they lie.
    pub medium: Option<Box<str>>,
    /// Group of layers that they belong to.
    pub group: Option<u32>,
}

/// Blocks that left the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRemoved {
    /// The blocks.
    pub block_hashes: Vec<BlockHash>,
    /// Where they lay.
    pub medium: Option<Box<str>>,
    /// Group of layers that they belong to.
    pub group: Option<u32>,
}

/// Name of a block: its content and everything before it, hashed by the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BlockHash {
    /// A number.
    Signed(i64),
    /// A number beyond those.
    Unsigned(u64),
    /// Bytes, as of SHA-256.
    Bytes(Box<[u8]>),
    /// Text: bytes that went through JSON.
    Text(Box<str>),
}

impl fmt::Display for BlockHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockHash::Signed(number) => number.fmt(formatter),
            BlockHash::Unsigned(number) => number.fmt(formatter),
            BlockHash::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}")),
            BlockHash::Text(text) => formatter.write_str(text),
        }
    }
}
