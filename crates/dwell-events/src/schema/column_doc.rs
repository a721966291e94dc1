//! What the columns say: the source of the documentation and of the data dictionary of a published dataset.

use arrow_schema::DataType;
use serde::Serialize;

use super::{ColumnSpec, Table};

/// One column of a table, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnDoc {
    /// Its name.
    pub name: String,
    /// Its type, as pyarrow shows it.
    pub type_text: String,
    /// Whether values may be missing.
    pub nullable: bool,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// Unit and meaning of a column.
pub(super) struct Meaning {
    name: &'static str,
    unit: &'static str,
    text: &'static str,
}

pub(super) const fn meaning(name: &'static str, unit: &'static str, text: &'static str) -> Meaning {
    Meaning { name, unit, text }
}

impl Table {
    /// Every column of the table, in order.
    pub fn columns(self) -> Vec<ColumnDoc> {
        if let Table::Own(spec) = self {
            return spec.columns.iter().map(ColumnDoc::of).collect();
        }
        let meanings = self.meanings();
        let doc = |field: &arrow_schema::FieldRef| {
            let found = meanings.iter().find(|meaning| meaning.name == field.name());
            ColumnDoc {
                name: field.name().clone(),
                type_text: type_text(field.data_type()),
                nullable: field.is_nullable(),
                unit: found.map_or("", |meaning| meaning.unit),
                meaning: found.map_or("", |meaning| meaning.text),
            }
        };
        self.schema().fields().iter().map(doc).collect()
    }
}

impl ColumnDoc {
    fn of(column: &ColumnSpec) -> Self {
        Self {
            name: column.name.to_owned(),
            type_text: type_text(&column.data_type),
            nullable: column.nullable,
            unit: column.unit,
            meaning: column.meaning,
        }
    }
}

/// Text is dictionary-encoded in memory only.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::Dictionary(..) => "string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Float64 => "double".to_owned(),
        number => number.to_string().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_meaning_and_no_other_has() {
        for table in Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS) {
            let described: Vec<&str> = table.meanings().iter().map(|meaning| meaning.name).collect();
            let schema = table.schema();
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(described, columns, "{}", table.name());
            assert!(table.columns().iter().all(|column| !column.meaning.is_empty()), "{}", table.name());
        }
    }

    #[test]
    fn a_column_that_names_its_unit_has_it() {
        for column in Table::ALL.into_iter().chain(Table::OF_ALLOCATIONS).flat_map(Table::columns) {
            let expected = [("_ns", "ns"), ("_bytes", "bytes"), ("_pct", "%")];
            if let Some((_, unit)) = expected.iter().find(|(ending, _)| column.name.ends_with(ending)) {
                assert_eq!(column.unit, *unit, "{}", column.name);
            }
        }
    }
}
