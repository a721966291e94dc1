//! Recordings of other programs, decoded.
//!
//! Every module reads one format from any [`std::io::Read`] in one pass, with bounded memory: counts and lengths that a
//! file states are checked before anything is allocated for them. Nothing here opens a file; a decoder that needs a second
//! file, such as a shared object for its symbols, asks its caller for the bytes.

#![forbid(unsafe_code)]

pub mod code;
pub mod data_source;
pub mod error;
pub mod lackey;
pub mod memray;
pub mod perf_data;
pub mod perf_script;
pub mod symbols;
#[cfg(feature = "testing")]
pub mod testing;
