//! How calls of allocators get from a recorded process to the observer, without ever making the process wait.
//!
//! ```text
//!                 ┌────────────── queue of free chunks ◀──────────────┐
//!                 ▼                                                   │ (after what it holds was written)
//! thread ─▶ takes a chunk ─▶ writes its events into it ─▶ observer reads them
//!                 └─▶ none free: the event is counted as lost
//! ```
//!
//! Each thread writes into a chunk of its own, so that threads meet only when they take one. The observer reads a chunk while it
//! is being filled. Events are whole as soon as the count of the chunk covers them: a killed process loses none of those.

mod call;
mod layout;
mod reader;
mod ticks;

pub use call::AllocationCall;
pub use layout::{
    ALLOCATION_DIR_VARIABLE, ALLOCATION_RING_BYTES_VARIABLE, AllocationRing, Chunk, DEFAULT_ALLOCATION_RING_BYTES,
    EVENTS_PER_CHUNK, Header, RawEvent, VERSION, bytes_of_ring, chunks_in,
};
pub use reader::{AllocationReader, ForkedFrom, ReadEvent, RecordedProcess};
pub use ticks::{Moment, TickSource};
