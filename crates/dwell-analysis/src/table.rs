//! The report: one row per region type and one per region, and the same as CSV.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::column::{Column, MetricTable, Value, csv_text};
use crate::frames::MrmTraceFrames;
use crate::metrics::bandwidth::{BANDWIDTH_COLUMNS, BANDWIDTH_TABLE, Bandwidth, BandwidthRow};
use crate::metrics::hot_cold::{self, HOT_COLD_COLUMNS, HOT_COLD_TABLE, HotColdRow, RegionUses};
use crate::metrics::inter_access_interval::InterAccessInterval;
use crate::metrics::locality::Locality;
use crate::metrics::read_frequency::ReadFrequency;
use crate::metrics::retention::Retention;
use crate::metrics::reuse_distance::{REUSE_COLUMNS, REUSE_TABLE, ReuseRow};
use crate::metrics::suitability::{NotRatedReason, SuitabilityThresholds};
use crate::metrics::working_set::WorkingSet;
use crate::metrics::write_once::WriteOnce;
use crate::metrics::{RegionTypeRow, region_columns, type_columns};
use crate::quality::{Quality, QualityStatus};
use crate::region_type::RegionTypeName;
use crate::requested::RequestedMetrics;
use crate::totals::Totals;
use crate::validity::{Validity, ValidityClass};
use crate::{Basis, Definitions, Metric, metrics::NS_PER_S, mrm_rows};

/// From the first to the last row of the trace. What happened outside of it was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationWindow {
    /// Earliest time.
    pub first_ns: u64,
    /// Latest time.
    pub last_ns: u64,
}

impl ObservationWindow {
    /// How long it is.
    pub fn duration_s(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / NS_PER_S
    }
}

/// What `region_map` calls a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegionName {
    /// Tensor that owns the bytes; none where nothing says so.
    pub tensor: Option<String>,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
}

/// The figures of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionFigures {
    /// The region.
    pub region_id: u64,
    /// Its name; empty until [`MetricsReport::name_regions`] gives it.
    #[serde(flatten)]
    pub name: RegionName,
    /// Its type.
    pub region_type: RegionTypeName,
    /// Time of its earliest row; not among the figures of mrm-trace.
    pub first_seen_ns: Option<u64>,
    /// Time of its latest row; not among the figures of mrm-trace.
    pub last_seen_ns: Option<u64>,
    /// How long data had to be kept.
    pub retention: Retention,
    /// How much was stored exactly once.
    pub write_once: WriteOnce,
    /// How much is read for what is written.
    pub read_frequency: ReadFrequency,
    /// How much memory was touched.
    pub working_set: WorkingSet,
    /// How far apart consecutive accesses are; only by the definitions of mrm-trace.
    pub locality: Option<Locality>,
    /// How long memory rests between two accesses; none if nothing was accessed twice.
    pub inter_access_interval: Option<InterAccessInterval>,
}

/// What a trace says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricsReport {
    /// Whose definitions the figures follow.
    pub definitions: Definitions,
    /// From which figures on a class is given.
    pub thresholds: SuitabilityThresholds,
    /// What the trace covers; none if it has no rows.
    pub window: Option<ObservationWindow>,
    /// Rows of `trace`.
    pub trace_rows: u64,
    /// Rows that are earlier than one before them.
    pub backward_rows: u64,
    /// Rows of `kv_block_lifecycle`.
    pub kv_lives: u64,
    /// The weakest basis of any row.
    pub basis: Basis,
    /// One row per region type that occurs, by name.
    pub region_types: Vec<RegionTypeRow>,
    /// One row per region, by id; empty by the definitions of mrm-trace, whose tables by region are in `mrm_trace`.
    pub regions: Vec<RegionFigures>,
    /// The tables of mrm-trace, if its definitions were asked for.
    pub mrm_trace: Option<MrmTraceFrames>,
    /// The metrics on request that were asked for.
    #[serde(skip)]
    pub(crate) requested: RequestedMetrics,
    /// What memories of different sizes serve, if reuse distances were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reuse: Vec<ReuseRow>,
    /// What was accessed in each window of time, if the bandwidth was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bandwidth: Vec<BandwidthRow>,
    /// Hot and cold memory by layer, if it was asked for; layers are known from [`MetricsReport::name_regions`] on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hot_cold: Vec<HotColdRow>,
    /// What the latter is computed from.
    #[serde(skip)]
    pub(crate) region_uses: Vec<RegionUses>,
    /// The names of regions, by id.
    #[serde(skip)]
    pub(crate) region_names: BTreeMap<u64, RegionName>,
    /// What the figures were computed from; empty by the definitions of mrm-trace.
    #[serde(skip)]
    pub(crate) totals: Totals,
    /// What timestamps count, if they are no times: then nothing is given in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<String>,
}

impl MetricsReport {
    /// The retention that 99 % of all lives do not exceed, weighted by bytes, whatever memory they are in. By the
    /// definitions of mrm-trace it is the mean over region types.
    pub fn retention_p99_s(&self) -> Option<f64> {
        match self.definitions {
            Definitions::Dwell => self.totals.retention_p99_s(),
            Definitions::MrmTrace => self.mean_over_types(|row| row.retention.p99_s),
        }
    }

    /// The share of all stored bytes that were stored once. By the definitions of mrm-trace it is the mean over region
    /// types.
    pub fn write_once_ratio(&self) -> Option<f64> {
        match self.definitions {
            Definitions::Dwell => self.totals.write_once_ratio(),
            Definitions::MrmTrace => self.mean_over_types(|row| row.write_once.ratio),
        }
    }

    fn mean_over_types(&self, figure: fn(&RegionTypeRow) -> Option<f64>) -> Option<f64> {
        let figures: Vec<f64> = self.region_types.iter().filter_map(figure).collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    }

    /// Takes into account how far the run itself is to be trusted: no memory is rated by a trace that lacks accesses, nor by the
    /// seconds of a run that was disturbed. Steps are the same however slow they were.
    pub fn heed(&mut self, quality: Option<&Quality>, validity: Option<&Validity>) {
        let is_contaminated = validity.is_some_and(|validity| validity.class == ValidityClass::Contaminated);
        let reason = match quality.map(|quality| quality.status) {
            Some(QualityStatus::Fail) => NotRatedReason::IncompleteTrace,
            _ if is_contaminated && !self.totals.observation.has_steps() => NotRatedReason::ContaminatedRun,
            _ => return,
        };
        if self.definitions == Definitions::Dwell {
            self.region_types.iter_mut().for_each(|row| row.suitability.withdraw(reason));
        }
    }

    /// Leaves out of figures and CSV whatever is a time, and rates no memory: the timestamps of the trace count these, such
    /// as `instructions`, and no nanoseconds.
    pub fn withhold_times(&mut self, unit: &str) {
        self.time_unit = Some(unit.to_owned());
        for row in &mut self.region_types {
            row.suitability.withdraw(NotRatedReason::NoClock);
            row.bandwidth = Bandwidth::default();
        }
    }

    /// Whether the timestamps of the trace are times.
    pub fn has_times(&self) -> bool {
        self.time_unit.is_none()
    }

    /// `metrics.csv` with the standard metrics and those on request that were computed: one line per region type. A field is
    /// empty where there is no figure.
    pub fn metrics_csv(&self) -> String {
        let is_computed = |metric: &Metric| Metric::STANDARD.contains(metric) || self.requested.contains(*metric);
        let metrics: Vec<Metric> = Metric::ALL.into_iter().filter(is_computed).collect();
        self.metrics_csv_of(&metrics)
    }

    /// The columns of `metrics.csv` that belong to the metrics, or to none: the type, how the figures were obtained.
    pub fn metrics_csv_of(&self, metrics: &[Metric]) -> String {
        let columns: Vec<_> = chosen_columns(metrics).collect();
        csv_text(&columns, &self.region_types, |column| self.is_shown(column))
    }

    /// The values of the same columns, by region type. Values that a type has not are left out.
    pub fn figures_of(&self, metrics: &[Metric]) -> Vec<TypeValues> {
        let values = |row: &RegionTypeRow| {
            let known = chosen_columns(metrics).filter(|column| column.name != "region_type" && self.is_shown(column));
            known.filter_map(|column| Some((column.name, column.value(row)?))).collect()
        };
        self.region_types.iter().map(|row| (row.region_type.clone(), values(row))).collect()
    }

    /// `metrics_by_region.csv`: one line per region. A field is empty where there is no figure.
    pub fn regions_csv(&self) -> String {
        let columns: Vec<_> = region_columns().into_iter().map(|(_, column)| column).collect();
        match &self.mrm_trace {
            None => csv_text(&columns, &self.regions, |column| self.is_shown(column)),
            Some(frames) => {
                let mut rows = mrm_rows::regions(frames, self.basis);
                name_rows(&mut rows, &self.region_names);
                csv_text(&columns, &rows, |column| self.is_shown(column))
            }
        }
    }

    /// `reuse_distance.csv`: one line per region type and size of a memory.
    pub fn reuse_csv(&self) -> String {
        csv_text(&REUSE_COLUMNS.each_ref(), &self.reuse, |_| true)
    }

    /// `bandwidth.csv`: one line per region type and window of time.
    pub fn bandwidth_csv(&self) -> String {
        csv_text(&BANDWIDTH_COLUMNS.each_ref(), &self.bandwidth, |_| true)
    }

    /// `hot_cold.csv`: one line per region type and layer.
    pub fn hot_cold_csv(&self) -> String {
        csv_text(&HOT_COLD_COLUMNS.each_ref(), &self.hot_cold, |_| true)
    }

    /// The tables of the metrics on request that were computed, as names and texts of files. What happened when is left out if
    /// the trace has no times.
    pub fn requested_tables(&self) -> Vec<(&'static str, String)> {
        let tables = [
            (REUSE_TABLE, !self.reuse.is_empty(), Self::reuse_csv as fn(&Self) -> String),
            (BANDWIDTH_TABLE, !self.bandwidth.is_empty() && self.has_times(), Self::bandwidth_csv),
            (HOT_COLD_TABLE, self.has_hot_cold(), Self::hot_cold_csv),
        ];
        let known = tables.into_iter().filter(|(_, is_known, _)| *is_known);
        known.map(|(name, _, text)| (name, text(self))).collect()
    }

    /// Endurance gathers the same, and was perhaps asked for alone.
    fn has_hot_cold(&self) -> bool {
        !self.hot_cold.is_empty() && self.requested.contains(Metric::HotCold)
    }

    /// Whether a column has values: times are withheld if there are none, and with them the shares that are kept for a time.
    fn is_shown<Row>(&self, column: &Column<Row>) -> bool {
        let is_time = column.unit.is_of_time() || column.name.starts_with("kept_");
        self.has_times() || !is_time
    }

    /// Gives the regions their names. The trace has ids alone; `region_map` has the names.
    pub fn name_regions(&mut self, names: BTreeMap<u64, RegionName>) {
        name_rows(&mut self.regions, &names);
        self.hot_cold = hot_cold::rows_by_layer(&self.region_uses, &names);
        self.region_names = names;
    }

    /// What the figures were computed from; empty by the definitions of mrm-trace.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

fn name_rows(rows: &mut [RegionFigures], names: &BTreeMap<u64, RegionName>) {
    for row in rows {
        row.name = names.get(&row.region_id).cloned().unwrap_or_default();
    }
}

/// A region type and its values, by column.
pub type TypeValues = (RegionTypeName, Vec<(&'static str, Value)>);

/// The columns of the metrics, and those that describe a line.
fn chosen_columns(metrics: &[Metric]) -> impl Iterator<Item = &'static Column<RegionTypeRow>> {
    let is_chosen = |table: &MetricTable| table.metric.is_none_or(|metric| metrics.contains(&metric));
    type_columns().into_iter().filter(move |(table, _)| is_chosen(table)).map(|(_, column)| column)
}

/// The columns of `metrics.csv` that say a metric, in their order there.
pub fn metric_columns(metric: Metric) -> Vec<&'static str> {
    let of_metric = type_columns().into_iter().filter(|(table, _)| table.metric == Some(metric));
    of_metric.map(|(_, column)| column.name).collect()
}
