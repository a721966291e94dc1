//! `summary.csv`: one line per group, region type and metric.

use dwell_analysis::statistics::Summary;
use dwell_events::csv_cell;

use crate::aggregate::{Aggregate, Group};
use crate::group::GroupKey;

/// Columns after the keys.
const FIGURE_COLUMNS: [&str; 9] = ["region_type", "metric", "n", "mean", "sd", "ci95_low", "ci95_high", "min", "max"];

/// After the keys that it stands for.
const CONFIGURATION: &str = "configuration";

impl Aggregate {
    /// Columns of [`Aggregate::summary_csv`].
    pub fn summary_columns() -> Vec<&'static str> {
        GroupKey::COLUMNS.into_iter().chain([CONFIGURATION]).chain(FIGURE_COLUMNS).collect()
    }

    /// One line per group, region type and metric; figures of runs as a whole have no region type. A field is empty
    /// where there is no figure: a group of one run has no spread, and one of fewer than three no interval.
    pub fn summary_csv(&self) -> String {
        let mut lines = Lines { writer: csv::Writer::from_writer(Vec::new()) };
        lines.write(Self::summary_columns());
        for group in &self.groups {
            lines.group(group);
        }
        lines.text()
    }
}

struct Lines {
    writer: csv::Writer<Vec<u8>>,
}

impl Lines {
    fn group(&mut self, group: &Group) {
        let keys: Vec<String> = group.key.fields().into_iter().chain([group.configuration.clone()]).collect();
        for (metric, summary) in &group.figures {
            self.figure(&keys, "", metric, summary);
        }
        for region in &group.regions {
            for (metric, summary) in &region.figures {
                self.figure(&keys, &region.region_type, metric, summary);
            }
            let runs: usize = region.suitability.values().sum();
            for (class, count) in &region.suitability {
                let share = *count as f64 / runs as f64;
                let fields = [format!("suitability_is_{class}"), runs.to_string(), share.to_string()];
                self.line(&keys, &region.region_type, &fields);
            }
        }
    }

    fn figure(&mut self, keys: &[String], region_type: &str, metric: &str, summary: &Summary) {
        let optional = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let fields = [
            metric.to_owned(),
            summary.n.to_string(),
            summary.mean.to_string(),
            optional(summary.standard_deviation),
            optional(summary.ci95_low),
            optional(summary.ci95_high),
            summary.min.to_string(),
            summary.max.to_string(),
        ];
        self.line(keys, region_type, &fields);
    }

    /// Fields that are not given are empty.
    fn line(&mut self, keys: &[String], region_type: &str, fields: &[String]) {
        let missing = FIGURE_COLUMNS.len() - 1 - fields.len();
        let given = keys.iter().map(String::as_str).chain([region_type]).chain(fields.iter().map(String::as_str));
        self.write(given.chain(std::iter::repeat_n("", missing)));
    }

    fn write<'a>(&mut self, fields: impl IntoIterator<Item = &'a str>) {
        // Writing to memory fails only for lines of unequal length, and all have the header's.
        let _ = self.writer.write_record(fields.into_iter().map(|field| csv_cell(field).into_owned()));
    }

    fn text(self) -> String {
        self.writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_a_spreadsheet_would_calculate_is_marked() {
        let mut lines = Lines { writer: csv::Writer::from_writer(Vec::new()) };
        lines.write(["=1+1", "-2", "m"]);
        assert_eq!(lines.text(), "'=1+1,-2,m\n");
    }
}
