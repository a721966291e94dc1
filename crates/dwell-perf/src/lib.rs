//! Perf events of the kernel, and the rings that it puts their records into.
//!
//! ```text
//! Attributes ─▶ Event::open, one for each thread and processor ─▶ redirected to ─▶ Rings, one for each processor ─▶ records
//! ```
//!
//! An event that is inherited must be bound to a processor to have a ring, and every event of that processor may use the same one.
//! So [`Rings`] belong to dummy events of the observer, and whatever is attached later writes into them. When the observer
//! ends, however it ends, the kernel closes the descriptors: nothing stays attached.

#![deny(unsafe_code)]

mod attributes;
#[allow(unsafe_code, reason = "perf events are a system call that no crate of ours wraps")]
mod event;
#[allow(unsafe_code, reason = "the kernel writes into the ring while it is read")]
mod ring;
mod rings;

pub use attributes::{ATTRIBUTES_BYTES, Attributes, SampledEvent, flags, kinds, sampled, software};
pub use event::{Counted, Event, Watched};
pub use ring::Ring;
pub use rings::{Opened, RingReader, Rings};
