//! What one message may hold. A server that goes beyond loses that batch, not the stream.
//!
//! Chosen: several times what vLLM and SGLang publish in one step of a large deployment, and small enough that a
//! damaged length costs no memory worth mentioning.

/// Bytes of one payload.
pub const PAYLOAD_MAX_BYTES: usize = 16 << 20;
/// Events of one batch.
pub const EVENTS_PER_BATCH_MAX: usize = 1 << 18;
/// Block hashes of one event.
pub const HASHES_PER_EVENT_MAX: usize = 1 << 16;
/// Block hashes of one batch.
pub const HASHES_PER_BATCH_MAX: usize = 1 << 20;
/// Token ids of one batch.
pub const TOKENS_PER_BATCH_MAX: usize = 1 << 23;
/// Token ids of one event.
pub const TOKENS_PER_EVENT_MAX: usize = 1 << 20;
/// Bytes of one block hash.
pub const HASH_MAX_BYTES: usize = 64;
/// Bytes of a name: of a medium, of an adapter, of a kind of event.
pub const NAME_MAX_BYTES: usize = 1024;
/// Bytes of a topic.
pub const TOPIC_MAX_BYTES: usize = 4096;
/// Memory of the blocks that are followed at a time: 2.1 million that are named by numbers. Stores beyond are counted and passed
/// over.
pub const STATE_MAX_BYTES: usize = 192 << 20;
/// Memory of a block beyond that if it is also found by its tokens.
pub(crate) const PREFIX_BYTES: usize = 224;
