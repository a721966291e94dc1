//! The numbers that a figure shows, as CSV.

use dwell_events::csv_cell;

/// A table; a field is empty where there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a field for each column.
    pub(super) fn row<const N: usize>(&mut self, fields: [Field; N]) {
        self.rows.push(fields.into_iter().map(|field| field.0).collect());
    }

    pub(super) fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory does not fail.
        let _ = writer.write_record(&self.columns);
        for row in &self.rows {
            let _ = writer.write_record(row.iter().map(|field| csv_cell(field).into_owned()));
        }
        writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// A field as text: numbers as short as they can be without losing anything.
pub(super) struct Field(String);

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<f64> for Field {
    fn from(number: f64) -> Self {
        Self(number.to_string())
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl From<bool> for Field {
    fn from(is_so: bool) -> Self {
        Self(is_so.to_string())
    }
}

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self(String::new()), Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed_and_empty_where_nothing_is_known() {
        let mut table = Table::new(&["name", "bytes", "share"]);
        table.row(["a, b".into(), 3u64.into(), None::<f64>.into()]);
        table.row(["c".into(), 0.1.into(), true.into()]);
        assert_eq!(table.csv(), "name,bytes,share\n\"a, b\",3,\nc,0.1,true\n");
    }
}
