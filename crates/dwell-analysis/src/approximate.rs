//! Estimates from a share of the pages: what is additive is scaled up, and the spread between groups of pages tells the error.
//!
//! Pages fall to the sample, and to one of its groups, by a hash. Rows are all read and counted, so that what is made of rows
//! is exact. The standard error is the jackknife's over groups, with the correction for a finite population: one group after
//! the other is left out, and the estimates without it spread as the estimate itself would between samples.

use dwell_events::RegionType;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::column::{Column, Getter, Merging, MetricTable, Value};
use crate::concluded::{ConcludedBytes, ConcludedRegion};
use crate::concluded_part::{ConcludedGathering, ConcludedPart, TraceFacts};
use crate::distribution::Distribution;
use crate::metrics::{RegionTypeRow, type_columns};
use crate::part::Part;
use crate::region_type::RegionTypeName;
use crate::{Metric, Options};

/// Groups of a sample. Chosen: an interval by 32 groups is 4 % wider than one by any number of them.
pub(crate) const GROUPS: u16 = 32;

/// Groups that have to hold memory of a type, so that their spread says something of it.
const LEAST_GROUPS: usize = 16;

/// Upper end of an interval of 95 %.
const UPPER_SHARE: f64 = 0.975;

/// What was concluded of a share of the pages.
pub struct ConcludedSample {
    pub(crate) share: f64,
    pub(crate) facts: TraceFacts,
    pub(crate) gaps_ns: Distribution,
    /// What was counted of all rows.
    pub(crate) rows: ConcludedBytes,
    /// What was followed of each group's pages.
    pub(crate) groups: Vec<ConcludedBytes>,
}

/// Estimates of the figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Approximation {
    /// Share of the pages that was followed.
    pub approximate_share: f64,
    /// Groups of pages whose spread tells the error.
    pub groups: usize,
    /// How the run was analysed.
    pub options: Options,
    /// Rows of `trace`, all of which were read.
    pub trace_rows: u64,
    /// By region type.
    pub region_types: Vec<ApproximateType>,
}

impl Approximation {
    /// Leaves out whatever is a time: the timestamps of the trace count something else than nanoseconds.
    pub fn withhold_times(&mut self) {
        let is_time = |figure: &ApproximateFigure| {
            figure.column.ends_with("_s") || figure.column.ends_with("_ns") || figure.column.starts_with("kept_")
        };
        self.region_types.iter_mut().for_each(|of_type| of_type.figures.retain(|figure| !is_time(figure)));
    }
}

/// Estimates for one region type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApproximateType {
    /// The type.
    pub region_type: RegionTypeName,
    /// By column of `metrics.csv`, in its order.
    pub figures: Vec<ApproximateFigure>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApproximateFigure {
    /// Column of `metrics.csv`.
    pub column: &'static str,
    /// The metric that the column belongs to, if to one.
    pub metric: Option<Metric>,
    /// What it was obtained from.
    pub basis: ApproximateBasis,
    /// The estimate; none if there is none.
    pub value: Option<f64>,
    /// Standard error of an estimate.
    pub standard_error: Option<f64>,
    /// Lower end of an interval of 95 %.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// What a figure was obtained from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproximateBasis {
    /// All rows were counted: the figure is exact.
    AllRows,
    /// A share of the pages was followed.
    ShareOfPages,
    /// Not estimable: the largest or smallest of a share is not that of the whole.
    ExtremeOfShare,
    /// Not estimable: what steps touched is not followed in groups.
    StepsOfShare,
    /// Not estimable: the figure is a bound of another one.
    BoundOfShare,
    /// Not estimable: too few groups of pages hold memory of the type.
    TooFewPages,
}

/// How a column of numbers is estimated.
enum Estimation {
    AllRows,
    /// The sum over all pages.
    ScaledUp,
    /// A ratio, a mean or a quantile.
    AsItIs,
    Not(ApproximateBasis),
}

/// Columns that are made of rows, all of which are counted, beside those of locality.
const FROM_ROWS: [&str; 11] = [
    "n_regions",
    "window_s",
    "steps",
    "time_resolution_s",
    "loads",
    "stores",
    "bytes_read",
    "bytes_written",
    "read_write_ratio",
    "decode_bytes_read",
    "decode_bytes_written",
];

impl Estimation {
    fn of(column: &Column<RegionTypeRow>, metric: Option<Metric>) -> Self {
        let is_bound = ["_low", "_high"].iter().any(|bound| column.name.contains(bound));
        match column.merging {
            _ if metric == Some(Metric::Locality) || FROM_ROWS.contains(&column.name) => Self::AllRows,
            _ if is_bound => Self::Not(ApproximateBasis::BoundOfShare),
            Merging::Sum => Self::ScaledUp,
            Merging::Extreme => Self::Not(ApproximateBasis::ExtremeOfShare),
            Merging::Steps => Self::Not(ApproximateBasis::StepsOfShare),
            _ => Self::AsItIs,
        }
    }
}

impl ConcludedSample {
    /// The estimates.
    pub fn estimate(&self) -> Approximation {
        let all: Vec<&ConcludedBytes> = self.groups.iter().collect();
        let (whole, counted) = (self.rows_of(&all), self.rows_of(&[]));
        let without: Vec<Vec<RegionTypeRow>> = (0..self.groups.len())
            .map(|left_out| {
                let others = self.groups.iter().enumerate().filter(|(group, _)| *group != left_out);
                self.rows_of(&others.map(|(_, group)| group).collect::<Vec<_>>())
            })
            .collect();
        let of_type = |row: &RegionTypeRow| ApproximateType {
            region_type: row.region_type.clone(),
            figures: self.figures(row, &counted, &without),
        };
        Approximation {
            approximate_share: self.share,
            groups: self.groups.len(),
            options: self.facts.options,
            trace_rows: self.facts.trace_rows,
            region_types: whole.iter().map(of_type).collect(),
        }
    }

    /// The rows of a report as if these groups were all of the memory.
    fn rows_of(&self, groups: &[&ConcludedBytes]) -> Vec<RegionTypeRow> {
        let mut merged = self.rows.clone();
        for group in groups {
            // All groups are of one trace.
            let _ = merged.merge((*group).clone());
        }
        let gathered = ConcludedGathering::Dwell(Box::new(merged));
        let part = ConcludedPart::new(Part::WHOLE, self.facts.clone(), Some(self.gaps_ns.clone()), gathered);
        part.into_report().region_types
    }

    fn groups_with(&self, region_type: &RegionTypeName) -> usize {
        let is_meant = |region: &ConcludedRegion| RegionType::ALL[region.type_index()].name() == &**region_type;
        self.groups.iter().filter(|group| group.regions.iter().any(is_meant)).count()
    }

    fn figures(
        &self,
        row: &RegionTypeRow,
        counted: &[RegionTypeRow],
        without: &[Vec<RegionTypeRow>],
    ) -> Vec<ApproximateFigure> {
        let is_same = |other: &&RegionTypeRow| other.region_type == row.region_type;
        let rows = EstimatedRows {
            counted: counted.iter().find(is_same),
            followed: row,
            without: without.iter().map(|rows| rows.iter().find(is_same)).collect(),
            groups: self.groups_with(&row.region_type),
        };
        let is_number = |column: &&Column<RegionTypeRow>| matches!(column.get, Getter::Integer(_) | Getter::Number(_));
        let is_standard = |table: &MetricTable| table.metric.is_none_or(|metric| Metric::STANDARD.contains(&metric));
        let columns = type_columns().into_iter().filter(|(table, column)| is_number(column) && is_standard(table));
        columns.map(|(table, column)| self.figure(column, table.metric, &rows)).collect()
    }

    fn figure(
        &self,
        column: &'static Column<RegionTypeRow>,
        metric: Option<Metric>,
        rows: &EstimatedRows<'_>,
    ) -> ApproximateFigure {
        let number = |row: &RegionTypeRow| column.value(row).as_ref().and_then(Value::number);
        let exact = ApproximateFigure {
            column: column.name,
            metric,
            basis: ApproximateBasis::AllRows,
            value: rows.counted.and_then(number),
            standard_error: None,
            low: None,
            high: None,
        };
        let groups = rows.without.len() as f64;
        let is_share = column.name.ends_with("_share") || column.name.starts_with("write_once_ratio");
        let most = if is_share { 1.0 } else { f64::INFINITY };
        let scale = match Estimation::of(column, metric) {
            Estimation::AllRows => return exact,
            Estimation::Not(basis) => return ApproximateFigure { basis, value: None, ..exact },
            _ if rows.groups < LEAST_GROUPS => {
                return ApproximateFigure { basis: ApproximateBasis::TooFewPages, value: None, ..exact };
            }
            Estimation::ScaledUp => 1.0 / self.share,
            Estimation::AsItIs => 1.0,
        };
        // Without a group there is less to add up, which the scale makes good.
        let scale_without = if scale == 1.0 { 1.0 } else { scale * groups / (groups - 1.0) };
        let value = number(rows.followed).map(|value| value * scale);
        let left: Vec<f64> =
            rows.without.iter().flatten().filter_map(|row| number(row)).map(|value| value * scale_without).collect();
        // Groups that all say the same, as of a quantile that lies in one of a few values, tell no error.
        let error = value.and_then(|_| jackknife_error(&left, rows.without.len(), self.share));
        let error = error.filter(|error| *error > 0.0 || self.share == 1.0);
        let half_width = error.zip(t_value(groups - 1.0)).map(|(error, t)| error * t);
        ApproximateFigure {
            basis: ApproximateBasis::ShareOfPages,
            value,
            standard_error: error,
            low: value.zip(half_width).map(|(value, half_width)| (value - half_width).max(0.0)),
            high: value.zip(half_width).map(|(value, half_width)| (value + half_width).min(most)),
            ..exact
        }
    }
}

/// The rows of one type that its figures are estimated from.
struct EstimatedRows<'a> {
    /// Without any page.
    counted: Option<&'a RegionTypeRow>,
    /// With all groups.
    followed: &'a RegionTypeRow,
    /// Without one group each.
    without: Vec<Option<&'a RegionTypeRow>>,
    /// Groups that hold memory of the type.
    groups: usize,
}

/// The standard error by estimates that leave one group out each; none if any of them says nothing.
fn jackknife_error(without: &[f64], groups: usize, share: f64) -> Option<f64> {
    if without.len() < groups || groups < 2 {
        return None;
    }
    let mean = without.iter().sum::<f64>() / groups as f64;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    let finite_population = (1.0 - share).max(0.0);
    Some((squares * (groups as f64 - 1.0) / groups as f64 * finite_population).sqrt())
}

fn t_value(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(UPPER_SHARE))
}

/// All regions of each type as one: estimates are made by type.
pub(crate) fn by_type(concluded: ConcludedBytes) -> ConcludedBytes {
    let mut by_type: Vec<ConcludedRegion> = Vec::new();
    for region in concluded.regions {
        let key = (u64::MAX, region.key.1);
        match by_type.iter_mut().find(|known| known.key == key) {
            Some(known) => known.merge(&region),
            None => by_type.push(ConcludedRegion { key, ..region }),
        }
    }
    by_type.sort_unstable_by_key(|region| region.key);
    ConcludedBytes { regions: by_type, ..concluded }
}
