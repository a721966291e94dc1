//! The vocabulary of dwell: what an access, a region, a phase, a loss is, and which columns the tables have.
//!
//! Every other crate depends on this one and this one depends on none of them. It opens no file, starts no
//! thread and reads no clock. A table lives in one file under [`schema`]: its columns with their units, its
//! row type, and the builder that turns rows into Arrow batches.

#![forbid(unsafe_code)]

mod about;
pub mod address_space;
mod basis;
mod choices;
mod clock;
mod collector_name;
mod csv_cell;
mod energy;
pub mod engine;
mod engines;
mod graph_node;
mod hint;
pub mod host;
pub mod kv_accesses;
pub mod kv_blocks;
pub mod llama_log;
mod loss;
pub mod page_sample;
mod phase;
mod region;
mod run_kind;
pub mod schema;
mod secrets;
pub mod server;
mod settings;
mod timeline;

pub use about::About;
pub use basis::Basis;
pub use clock::ClockAnchor;
pub use collector_name::CollectorName;
pub use csv_cell::{csv_cell, csv_text};
pub use energy::{EnergyBasis, EnergyMeterName, EnergyPart};
pub use graph_node::{DIMENSIONS, GraphNode};
pub use hint::Hint;
pub use loss::{LossKind, Severity};
pub use phase::Phase;
pub use region::{OpType, RegionType};
pub use run_kind::RunKind;
pub use secrets::without_secrets;
pub use settings::{Compression, Definitions, Metric, UnknownPolicy};
pub use timeline::{PhaseSpan, RequestSpan};

/// Version of the table schemas, stored in every Parquet file under [`SCHEMA_VERSION_KEY`].
///
/// The major part changes only when a column that mrm-trace files have changes its meaning.
pub const SCHEMA_VERSION: &str = "1.3";

/// Key of the schema version in the Parquet file metadata, shared with mrm-trace.
pub const SCHEMA_VERSION_KEY: &str = "mrm_trace_schema_version";

/// log2 of the page size that `address_page` and the page columns are counted in.
///
/// Fixed at 4 KiB whatever the machine's page size is, so that traces can be compared.
pub const PAGE_SHIFT: u32 = 12;
