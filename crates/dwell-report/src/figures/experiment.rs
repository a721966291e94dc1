//! The figures of an aggregate.

use dwell_analysis::statistics::Summary;

use super::axis::Unit;
use super::canvas::colour_of;
use super::dots::{Block, DotChart, Mark, Row};
use crate::ReportError;
use crate::aggregate::{Aggregate, Group};

/// What a figure shows.
struct Plan {
    file_name: &'static str,
    title: &'static str,
    axis_label: &'static str,
    unit: Unit,
    rows: Rows,
    /// Metric and its name in the legend: a dot, then a ring.
    marks: &'static [(&'static str, &'static str)],
}

/// What the rows of a group are.
#[derive(Clone, Copy)]
enum Rows {
    /// Every region type.
    RegionTypes,
    /// One region type.
    RegionType(&'static str),
    /// The runs as a whole.
    Runs,
}

const PLANS: [Plan; 5] = [
    Plan {
        file_name: "retention.svg",
        title: "Retention: how long bytes had to be kept, at least",
        axis_label: "seconds, logarithmic",
        unit: Unit::Seconds,
        rows: Rows::RegionTypes,
        // The lower bounds: where lives went on when runs ended, there is no other figure, and elsewhere they are the figure.
        marks: &[("retention_p50_low_s", "p50"), ("retention_p99_low_s", "p99")],
    },
    Plan {
        file_name: "write_once.svg",
        title: "Share of stored bytes that were stored exactly once",
        axis_label: "share of stored bytes",
        unit: Unit::Share,
        rows: Rows::RegionTypes,
        marks: &[("write_once_ratio_mean", "write-once ratio")],
    },
    Plan {
        file_name: "working_set.svg",
        title: "Working set: distinct bytes touched",
        axis_label: "bytes, logarithmic",
        unit: Unit::Bytes,
        rows: Rows::RegionTypes,
        marks: &[("distinct_bytes", "whole run"), ("step_working_set_median_bytes", "median step")],
    },
    Plan {
        file_name: "kv_cache.svg",
        title: "KV cache: bytes held and bytes read",
        axis_label: "bytes, logarithmic",
        unit: Unit::Bytes,
        rows: Rows::RegionType("kv_cache"),
        marks: &[("distinct_bytes", "held"), ("bytes_read", "read")],
    },
    Plan {
        file_name: "decode_speed.svg",
        title: "Decode speed while being recorded",
        axis_label: "tokens per second",
        unit: Unit::TokensPerSecond,
        rows: Rows::Runs,
        marks: &[("decode_tokens_per_s", "decode steps")],
    },
];

/// File names and contents of the figures of an aggregate. A figure that no run has numbers for is left out.
pub fn experiment_figures(aggregate: &Aggregate) -> Result<Vec<(String, String)>, ReportError> {
    let charts = PLANS.iter().filter_map(|plan| Some((plan.file_name, plan.chart(aggregate)?)));
    charts
        .map(|(name, chart)| {
            let drawing = |error: super::canvas::DrawingError| ReportError::Drawing {
                figure: name.to_owned(),
                reason: error.to_string(),
            };
            Ok((name.to_owned(), chart.svg().map_err(drawing)?))
        })
        .collect()
}

impl Plan {
    fn chart(&self, aggregate: &Aggregate) -> Option<DotChart> {
        let blocks: Vec<Block> = aggregate.groups.iter().filter_map(|group| self.block(group, aggregate)).collect();
        let names: Vec<&str> = aggregate.experiments.iter().map(String::as_str).collect();
        let title =
            if names.is_empty() { self.title.to_owned() } else { format!("{}: {}", names.join(", "), self.title) };
        (!blocks.is_empty()).then(|| DotChart {
            title,
            axis_label: self.axis_label,
            unit: self.unit,
            legend: self.marks.iter().map(|(_, name)| *name).collect(),
            blocks,
            caption: aggregate.caption(),
        })
    }

    fn block(&self, group: &Group, aggregate: &Aggregate) -> Option<Block> {
        let regions = || group.regions.iter().map(|region| (region.region_type.as_str(), &region.figures));
        let rows: Vec<Row> = match self.rows {
            Rows::Runs => [("", &group.figures)].into_iter().filter_map(|row| self.row(row)).collect(),
            Rows::RegionTypes => regions().filter_map(|row| self.row(row)).collect(),
            Rows::RegionType(wanted) => {
                regions().filter(|(name, _)| *name == wanted).filter_map(|row| self.row(row)).collect()
            }
        };
        let heading = format!("{} (n = {})", aggregate.label_of(group), group.run_ids.len());
        (!rows.is_empty()).then_some(Block { heading, rows })
    }

    fn row(&self, (name, figures): (&str, &std::collections::BTreeMap<String, Summary>)) -> Option<Row> {
        let marks: Vec<Mark> = self
            .marks
            .iter()
            .enumerate()
            .filter_map(|(index, (metric, _))| Some(Mark { summary: *figures.get(*metric)?, is_ring: index > 0 }))
            .collect();
        (!marks.is_empty()).then(|| Row { label: name.to_owned(), colour: colour_of(name), marks })
    }
}
