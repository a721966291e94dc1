//! A run on disk.
//!
//! While a run is recorded, collectors append record batches to `raw/*.arrows` ([`RawWriter`]); a stream cut at
//! any byte still gives back every whole batch ([`RawReader`]). Afterwards the tables are written from that as
//! Parquet ([`TableWriter`], [`TableReader`]) and the manifest seals the directory ([`write_manifest`],
//! [`verify`]). [`RunDir`] knows where each file lies and how far the run has come. Runs lie in a results directory
//! ([`runs_under`]) whose `manifest.csv` has one row for each ([`ResultsManifest`]).
//!
//! Nothing here knows what a record means: decoding is the business of the crate that wrote it.

#![forbid(unsafe_code)]

mod cells;
mod changed_files;
mod compression;
mod delta;
mod error;
mod hybrid;
mod ipc_message;
mod levels;
mod manifest;
mod manifest_row;
mod memory_csv;
mod memory_log;
mod memory_rows;
mod message_checksum;
mod number_column;
mod number_dictionary;
mod pages;
mod places;
mod raw_reader;
mod raw_writer;
mod records;
mod results_manifest;
mod results_tree;
mod row_group;
mod run_dir;
mod run_id;
mod run_state;
mod table_copy;
mod table_extent;
mod table_layout;
mod table_reader;
mod table_window;
mod table_writer;
mod text_column;
mod utc;
mod verify;
mod verify_tree;

pub use cells::{number_at, text_at};
pub use changed_files::{FilesRead, changed_files};
pub use dwell_events::{ClockAnchor, Compression};
pub use error::StoreError;
pub use manifest::{
    MANIFEST_SCHEMA_VERSION, Manifest, ManifestFile, ensure_listed_tables, hash_file, manifest_of, write_manifest,
};
pub use manifest_row::{MANIFEST_COLUMNS, ManifestColumn, ManifestRow};
pub use memory_csv::{MEMORY_CSV_HEADER, MemoryCsv, MemoryCsvFile};
pub use memory_log::{MemoryLog, MemoryLogForm, RecoveredLog, recover_memory_log, unfinished_memory_log};
pub use memory_rows::memory_rows;
pub use raw_reader::{RawReader, StreamEnd};
pub use raw_writer::{RawCompression, RawWriter};
pub use records::{RecordsBuilder, records_schema};
pub use results_manifest::{RESULTS_MANIFEST_FILE, ResultsManifest};
pub use results_tree::{EXPERIMENTS_DIR, FoundRun, TreeKind, is_tree_name, runs_under, tree_kind};
pub use run_dir::{RunDir, check_name};
pub use run_id::new_run_id;
pub use run_state::{RunMarker, RunState};
pub use table_copy::{ConstantColumn, copy_table_with};
pub use table_extent::{TableExtent, table_extent};
pub use table_reader::{TableReader, open_table, open_table_columns, open_table_groups, open_table_subset};
pub use table_window::{TableWindow, open_table_window};
pub use table_writer::TableWriter;
pub use utc::{unix_secs_now, unix_secs_of, utc_text};
pub use verify::{ChangedFile, TableProblem, VerifyReport, verify};
pub use verify_tree::{ManifestCheck, RunCheck, RunOutcome, TreeReport, verify_tree};
