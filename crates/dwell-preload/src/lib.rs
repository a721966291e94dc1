//! The recorder as a preload library for unmodified llama.cpp programs.
//!
//! It takes the place of some functions of ggml ([`stand_ins`]), calls the originals, and records around them.
//!
//! ```text
//! program ──call──▶ stand-in (trampoline) ─▶ call_sites: what does this call reach?
//!                      │                        first time: originals, from the tables of the loaded objects (elf, scopes)
//!                      ├─ not recorded ──jump─▶ the original
//!                      └─ recorded ──────jump─▶ stand_ins: records (source) around the original
//! ```
//!
//! A call reaches what it would have reached without this library: a program may have several ggmls, each in a library
//! of its own, inside another library, or loaded later. Each has its own recorder; all write into one ring.
//!
//! A program that was not started by dwell, that links ggml statically, or whose ggml has another layout runs on as if
//! the library were not there.
//!
//! ```text
//! DWELL_RING_DIR=/run/dir/raw DWELL_OBSERVER_PID=123 LD_PRELOAD=libdwell_preload.so llama-server …
//! ```

mod call_sites;
mod callbacks;
mod elf;
mod fork_lock;
mod ggml_library;
mod originals;
mod owner;
mod recording;
mod scopes;
mod source;
mod stand_ins;
mod state;
mod trampoline;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a part of this library; a panic in it must not reach the program.
fn guarded<T>(part: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(part)).ok()
}
