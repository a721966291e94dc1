//! The one description of every column with a figure: name, unit, meaning, how it merges and how a row gives it.
//!
//! Text, CSV, the data dictionary and the tables of the documentation are all made from these entries.

use std::borrow::Cow;
use std::fmt;

use dwell_events::{Metric, csv_cell};

use crate::metrics::RegionTypeRow;
use crate::table::RegionFigures;

dwell_events::choices! {
    /// Unit of a column.
    Unit {
        /// A count of things that the meaning names, or no number.
        None = "",
        /// A part of a whole, or a quotient of two numbers with the same unit.
        Ratio = "ratio",
        /// Seconds.
        Seconds = "s",
        /// Nanoseconds.
        Nanoseconds = "ns",
        /// Bytes.
        Bytes = "bytes",
        /// Mebibytes.
        Mebibytes = "MiB",
        /// Pages of 4 KiB.
        Pages = "4 KiB pages",
        /// Bytes per second.
        BytesPerSecond = "bytes/s",
        /// A count per second.
        PerSecond = "1/s",
    }
}

impl Unit {
    /// The unit as the data dictionary writes it: a ratio has none.
    pub fn symbol(self) -> &'static str {
        if self == Unit::Ratio { "" } else { self.name() }
    }

    /// Whether values depend on a clock.
    pub(crate) fn is_of_time(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Nanoseconds | Unit::BytesPerSecond | Unit::PerSecond)
    }
}

dwell_events::choices! {
    /// How the figure of several runs, which share neither memory nor time, comes from those of each.
    ///
    /// Parts of one trace are another matter: they give every figure as the whole trace does, bit for bit
    /// ([`crate::ConcludedPart`]).
    Merging {
        /// Every run has the same value.
        Same = "same",
        /// The runs are added up.
        Sum = "sum",
        /// The largest or, for a time of beginning, the smallest of the runs.
        Extreme = "extreme",
        /// The weakest basis of any run.
        Weakest = "weakest",
        /// The distributions of the runs are added up, and the figure is taken from the result.
        Distribution = "distribution",
        /// Computed anew from other merged figures.
        Derived = "derived",
        /// The steps of all runs count.
        Steps = "steps",
        /// Only rows, steps and times within a run count.
        WithinParts = "within parts",
        /// The bounds are those of the sampler that was slowest in any run.
        WidestBounds = "widest bounds",
        /// Those of whole traces are added up. Parts of a trace cannot be merged: all rows are needed in their order.
        WholeTraces = "whole traces",
    }
}

/// How a column's value is taken from a row. A missing value is an empty field.
#[derive(Clone, Copy, Debug)]
pub enum Getter<Row: 'static> {
    /// A whole number.
    Integer(fn(&Row) -> Option<u64>),
    /// A number.
    Number(fn(&Row) -> Option<f64>),
    /// A name.
    Text(fn(&Row) -> Option<Cow<'_, str>>),
    /// Yes or no.
    Flag(fn(&Row) -> bool),
}

/// One column of a file with figures.
#[derive(Clone, Copy, Debug)]
pub struct Column<Row: 'static> {
    /// Place in the file, from 0. A new column comes last, so that files stay readable by position.
    pub place: usize,
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it says.
    pub meaning: &'static str,
    /// How it comes from several runs.
    pub merging: Merging,
    /// How a row gives it.
    pub get: Getter<Row>,
}

impl<Row> Column<Row> {
    /// Type of the values, in words.
    pub fn type_text(&self) -> &'static str {
        match self.get {
            Getter::Integer(_) => "integer",
            Getter::Number(_) => "number",
            Getter::Text(_) => "text",
            Getter::Flag(_) => "true/false",
        }
    }

    /// The value in a row; none if the row has none.
    pub fn value(&self, row: &Row) -> Option<Value> {
        match self.get {
            Getter::Integer(get) => get(row).map(Value::Integer),
            Getter::Number(get) => get(row).map(Value::Number),
            Getter::Text(get) => get(row).map(|text| Value::Text(text.into_owned())),
            Getter::Flag(get) => Some(Value::Flag(get(row))),
        }
    }
}

/// One value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// The value as a number, if it is a finite one.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Integer(value) => Some(value as f64),
            Value::Number(value) => Some(value).filter(|value| value.is_finite()),
            Value::Text(_) | Value::Flag(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => value.fmt(formatter),
            Value::Number(value) => value.fmt(formatter),
            Value::Text(text) => formatter.write_str(text),
            Value::Flag(value) => value.fmt(formatter),
        }
    }
}

/// A metric: its columns in `metrics.csv` and in `metrics_by_region.csv`, and the page that says how they are computed.
#[derive(Debug)]
pub struct MetricTable {
    /// The metric; none for the columns that describe a line.
    pub metric: Option<Metric>,
    /// Page of the documentation with the definition of every figure, relative to the repository.
    pub page: &'static str,
    /// Columns of `metrics.csv`.
    pub by_type: &'static [Column<RegionTypeRow>],
    /// Columns of `metrics_by_region.csv`.
    pub by_region: &'static [Column<RegionFigures>],
}

/// The lines of a file: names of the columns, then one line per row.
pub(crate) fn csv_text<Row>(columns: &[&Column<Row>], rows: &[Row], is_shown: impl Fn(&Column<Row>) -> bool) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory fails only for lines of unequal length, and all have the header's.
    let _ = writer.write_record(columns.iter().map(|column| column.name));
    for row in rows {
        let value = |column: &Column<Row>| column.value(row).filter(|_| is_shown(column));
        let field = |column: &&Column<Row>| {
            value(column).map_or_else(String::new, |value| csv_cell(&value.to_string()).into_owned())
        };
        let _ = writer.write_record(columns.iter().map(field));
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// A column: place in the file, name, unit, how it merges, how a row gives it, what it says.
pub(crate) const fn column<Row>(
    place: usize,
    name: &'static str,
    unit: Unit,
    merging: Merging,
    get: Getter<Row>,
    meaning: &'static str,
) -> Column<Row> {
    Column { place, name, unit, meaning, merging, get }
}
