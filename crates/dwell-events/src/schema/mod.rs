//! The tables of a run directory, one file each.

pub mod allocation_samples;
pub mod allocation_sites;
pub mod allocation_stacks;
pub mod allocations;
mod column_doc;
mod columns;
pub mod kv_block_lifecycle;
pub mod loss;
pub mod memory;
pub mod region_map;
mod sparse;
mod table_spec;
pub mod tokens;
pub mod trace;
mod trace_builder;
mod trace_columns;
mod trace_kinds;
mod words;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_schema::{DataType, Field, SchemaRef};
use serde::{Serialize, Serializer};

pub use column_doc::ColumnDoc;
use column_doc::{Meaning, meaning};
pub use columns::{numbers, optional_words, words};
pub use table_spec::{ColumnSpec, TEXT, TableSpec};
pub use words::Words;

/// A table of a run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Labelled accesses.
    Trace,
    /// One row per region.
    RegionMap,
    /// One row per life of a KV block.
    KvBlockLifecycle,
    /// One row per token.
    Tokens,
    /// Process samples.
    Memory,
    /// What is missing.
    Loss,
    /// Calls of allocators.
    Allocations,
    /// Stacks of those calls.
    AllocationStacks,
    /// The memory of the process between them.
    AllocationSamples,
    /// Sums of allocations by place.
    AllocationSites,
    /// A table that one collector fills and declares itself.
    Own(&'static TableSpec),
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Table {
    /// Every table that runs share, in the order in which they are documented. Those of imported allocations and of
    /// collectors come on top.
    pub const ALL: [Table; 6] =
        [Table::Trace, Table::RegionMap, Table::KvBlockLifecycle, Table::Tokens, Table::Memory, Table::Loss];

    /// The tables of a run that was made from recorded allocations; `loss` is there, too.
    pub const OF_ALLOCATIONS: [Table; 4] =
        [Table::Allocations, Table::AllocationStacks, Table::AllocationSamples, Table::AllocationSites];

    /// The table's name; its file is the name with `.parquet`.
    pub fn name(self) -> &'static str {
        match self {
            Table::Trace => "trace",
            Table::RegionMap => "region_map",
            Table::KvBlockLifecycle => "kv_block_lifecycle",
            Table::Tokens => "tokens",
            Table::Memory => "memory",
            Table::Loss => "loss",
            Table::Allocations => "allocations",
            Table::AllocationStacks => "allocation_stacks",
            Table::AllocationSamples => "allocation_samples",
            Table::AllocationSites => "allocation_sites",
            Table::Own(spec) => spec.name,
        }
    }

    /// File name inside the run directory.
    pub fn file_name(self) -> String {
        format!("{}.parquet", self.name())
    }

    /// Columns of the table.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Trace => trace::schema(),
            Table::RegionMap => region_map::schema(),
            Table::KvBlockLifecycle => kv_block_lifecycle::schema(),
            Table::Tokens => tokens::schema(),
            Table::Memory => memory::schema(),
            Table::Loss => loss::schema(),
            Table::Allocations => allocations::schema(),
            Table::AllocationStacks => allocation_stacks::schema(),
            Table::AllocationSamples => allocation_samples::schema(),
            Table::AllocationSites => allocation_sites::schema(),
            Table::Own(spec) => spec.schema(),
        }
    }

    fn meanings(self) -> &'static [Meaning] {
        match self {
            Table::Trace => &trace::MEANINGS,
            Table::RegionMap => &region_map::MEANINGS,
            Table::KvBlockLifecycle => &kv_block_lifecycle::MEANINGS,
            Table::Tokens => &tokens::MEANINGS,
            Table::Memory => &memory::MEANINGS,
            Table::Loss => &loss::MEANINGS,
            Table::Allocations => &allocations::MEANINGS,
            Table::AllocationStacks => &allocation_stacks::MEANINGS,
            Table::AllocationSamples => &allocation_samples::MEANINGS,
            Table::AllocationSites => &allocation_sites::MEANINGS,
            // Its columns say themselves what they mean.
            Table::Own(_) => &[],
        }
    }
}

/// Text with few distinct values. Parquet files hold it as plain strings, dictionary-encoded on disk.
pub(crate) type TextBuilder = StringDictionaryBuilder<Int32Type>;

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), nullable)
}

fn column(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

fn optional(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}
