//! What one message may hold. A server that goes beyond loses that batch, not the stream.
//!
//! Chosen: several times what vLLM and SGLang publish in one step of a large deployment, and small enough that a
//! damaged length costs no memory worth mentioning.

/// Bytes of one payload.
pub const PAYLOAD_MAX_BYTES: usize = 64 << 20;
/// Events of one batch.
pub const EVENTS_PER_BATCH_MAX: usize = 1 << 18;
/// Block hashes of one event.
pub const HASHES_PER_EVENT_MAX: usize = 1 << 16;
/// Token ids of one event.
pub const TOKENS_PER_EVENT_MAX: usize = 1 << 20;
/// Bytes of one block hash.
pub const HASH_MAX_BYTES: usize = 64;
/// Bytes of a name: of a medium, of an adapter, of a kind of event.
pub const NAME_MAX_BYTES: usize = 1024;
/// Blocks that are followed at a time; stores beyond are counted and passed over.
pub const LIVE_BLOCKS_MAX: usize = 1 << 24;
