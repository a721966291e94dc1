//! A run on disk.
//!
//! While a run is recorded, collectors append record batches to `raw/*.arrows` ([`RawWriter`]); a stream cut at
//! any byte still gives back every whole batch ([`RawReader`]). Afterwards the tables are written from that as
//! Parquet ([`TableWriter`], [`TableReader`]) and the manifest seals the directory ([`write_manifest`],
//! [`verify`]). [`RunDir`] knows where each file lies and how far the run has come.
//!
//! Nothing here knows what a record means: decoding is the business of the crate that wrote it.

#![forbid(unsafe_code)]

mod atomic_file;
mod error;
mod fence;
mod ipc_message;
mod manifest;
mod memory_csv;
mod raw_reader;
mod raw_writer;
mod records;
mod run_dir;
mod run_id;
mod run_state;
mod space;
mod table_layout;
mod table_reader;
mod table_writer;
mod utc;
mod verify;

pub use atomic_file::{AtomicFile, PARTIAL_SUFFIX, write_bytes_atomically, write_json_atomically};
pub use error::StoreError;
pub use manifest::{MANIFEST_SCHEMA_VERSION, Manifest, ManifestFile, write_manifest};
pub use memory_csv::{ClockAnchor, MEMORY_CSV_HEADER, MemoryCsv, MemoryCsvFile};
pub use raw_reader::{RawReader, StreamEnd};
pub use raw_writer::{RawCompression, RawWriter};
pub use records::{RecordsBuilder, records_schema};
pub use run_dir::RunDir;
pub use run_id::new_run_id;
pub use run_state::{RunMarker, RunState};
pub use space::{available_bytes, ensure_space};
pub use table_reader::{TableReader, open_table, open_table_columns};
pub use table_writer::TableWriter;
pub use utc::utc_text;
pub use verify::{ChangedFile, TableProblem, VerifyReport, verify};
