//! The recorder of allocations, as a library that is loaded into unmodified programs.
//!
//! It takes the place of the functions of the malloc and mmap families, calls those that the program would have reached without
//! it, and notes each call in a ring of shared memory ([`dwell_ring::allocations`]).
//!
//! ```text
//! program ──malloc──▶ heap ──▶ originals: the next `malloc` that the loader knows
//!                       └────▶ recording: time, thread, address, size ──▶ the thread's chunk of the ring
//! ```
//!
//! It runs inside every call of every thread of other people's programs. So it
//! - does nothing but pass calls on unless the environment names a folder for rings;
//! - never waits: what finds no room is counted;
//! - allocates nothing, takes no lock, and leaves `errno` as it was;
//! - starts afresh in forked children, which find the page that knows the ring empty ([`fork_page`]).
//!
//! ```text
//! DWELL_ALLOC_DIR=/run/dir/raw/alloc LD_PRELOAD=libdwell_alloc.so python3 …
//! ```

#![cfg(target_os = "linux")]

mod environment;
mod fork_page;
mod heap;
mod mappings;
mod originals;
mod recording;
mod ring_file;
mod system_calls;
mod thread_slot;
