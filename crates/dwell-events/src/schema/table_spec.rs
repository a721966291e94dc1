//! A table that is declared outside of this crate, by the collector that fills it.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::text;

/// A table of a collector's own: its name and, once for all readers, its columns.
#[derive(Debug)]
pub struct TableSpec {
    /// The table's name; its file is the name with `.parquet`.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: &'static [ColumnSpec],
}

/// Type of a column of texts with few distinct values. In batches they are dictionary-encoded, a type that a constant cannot name.
pub const TEXT: DataType = DataType::Utf8;

/// A column of a table, with what it says.
#[derive(Debug)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type; [`TEXT`] for texts.
    pub data_type: DataType,
    /// Whether values may be missing.
    pub nullable: bool,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

impl TableSpec {
    pub(super) fn schema(&self) -> SchemaRef {
        let field = |column: &ColumnSpec| match &column.data_type {
            &TEXT => text(column.name, column.nullable),
            data_type => Field::new(column.name, data_type.clone(), column.nullable),
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
}

// Two tables of one name would be one file.
impl PartialEq for TableSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TableSpec {}

impl Hash for TableSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for TableSpec {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableSpec {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}
