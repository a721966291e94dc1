//! Files that appear whole or not at all, and reads that end.
//!
//! Everything that dwell writes beside its raw streams goes through [`AtomicFile`]; every file that may come from
//! elsewhere is read with a limit ([`read_at_most`]) and decoded inside a fence ([`fenced`]). The crate knows no
//! format but the framing of Arrow IPC streams ([`arrow_framing`]), which raw streams and tensor streams share, so that
//! a tensor stream can be written without compiling Parquet.

#![forbid(unsafe_code)]

pub mod arrow_framing;
mod atomic_file;
mod bounded_read;
mod error;
mod fence;
mod space;
mod staged_file;

pub use atomic_file::{
    AtomicFile, PARTIAL_SUFFIX, check_replaceable, create_new, partial_path, publish_durably, rename_durably, sibling,
    staging_path, sync_directory_of, sync_file_system, write_bytes_atomically, write_json_atomically,
    write_json_line_atomically,
};
pub use bounded_read::{
    OWN_TEXT_MAX_BYTES, TEXT_MAX_BYTES, WRITTEN_BY_HAND_MAX_BYTES, object_bytes, open_ordinary, open_with_end,
    read_at_most, read_json, read_own, read_own_text, read_text_at_most,
};
pub use error::FileError;
pub use fence::fenced;
pub use space::{available_bytes, ensure_space};
pub use staged_file::StagedFile;
