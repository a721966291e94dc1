//! The report: one row per region type and one per region, and the same as CSV.

use serde::Serialize;

use crate::csv::{Csv, number};
use crate::frames::MrmTraceFrames;
use crate::histogram::GatheredLives;
use crate::metric::METRICS_COLUMNS;
use crate::metrics::inter_access_interval::InterAccessInterval;
use crate::metrics::locality::Locality;
use crate::metrics::read_frequency::ReadFrequency;
use crate::metrics::retention::Retention;
use crate::metrics::suitability::Suitability;
use crate::metrics::working_set::WorkingSet;
use crate::metrics::write_once::WriteOnce;
use crate::region_type::RegionTypeName;
use crate::sampling::{Estimate, Obstacle};
use crate::{Basis, Definitions, Metric, metrics::NS_PER_S, mrm_rows};

/// From the first to the last row of the trace. What happened outside of it was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

/// The figures of one region type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionTypeRow {
    /// The type.
    pub region_type: RegionTypeName,
    /// Regions of the type.
    pub n_regions: u64,
    /// How long data had to be kept.
    pub retention: Retention,
    /// How much was stored exactly once.
    pub write_once: WriteOnce,
    /// How much is read for what is written.
    pub read_frequency: ReadFrequency,
    /// How much memory was touched.
    pub working_set: WorkingSet,
    /// How far apart consecutive accesses are.
    pub locality: Locality,
    /// How long memory rests between two accesses.
    pub inter_access_interval: InterAccessInterval,
    /// Whether managed-retention memory could hold it.
    pub suitability: Suitability,
}

/// The figures of one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionRow {
    /// The region.
    pub region_id: u64,
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
    pub regions: Vec<RegionRow>,
    /// The tables of mrm-trace, if its definitions were asked for.
    pub mrm_trace: Option<MrmTraceFrames>,
    /// What the histograms are made of; empty by the definitions of mrm-trace.
    #[serde(skip)]
    pub(crate) lives: Vec<GatheredLives>,
}

/// Columns of [`MetricsReport::regions_csv`].
pub const REGIONS_COLUMNS: [&str; 25] = [
    "region_id",
    "region_type",
    "first_seen_ns",
    "last_seen_ns",
    "retention_p50_s",
    "retention_p90_s",
    "retention_p99_s",
    "retention_mean_s",
    "retention_max_s",
    "retention_basis",
    "life_bytes",
    "never_read_bytes",
    "censored_share",
    "inferred_share",
    "write_once_ratio",
    "write_once_basis",
    "loads",
    "stores",
    "bytes_read",
    "bytes_written",
    "read_write_ratio",
    "reads_per_write",
    "distinct_bytes",
    "distinct_pages",
    "basis",
];

/// Bytes of a unit that mrm-trace calls megabyte.
const BYTES_PER_MB: f64 = 1_048_576.0;

impl MetricsReport {
    /// `metrics.csv`: one line per region type. A field is empty where there is no figure.
    pub fn metrics_csv(&self) -> String {
        self.metrics_csv_of(&Metric::ALL)
    }

    /// The columns of `metrics.csv` that belong to the metrics, or to none: the type, how the figures were obtained.
    pub fn metrics_csv_of(&self, metrics: &[Metric]) -> String {
        let is_chosen = METRICS_COLUMNS.map(|(_, metric)| metric.is_none_or(|metric| metrics.contains(&metric)));
        let names = METRICS_COLUMNS.map(|(name, _)| name);
        let mut csv = Csv::new(&chosen(names, is_chosen));
        for row in &self.region_types {
            csv.line(&chosen(self.metrics_fields(row), is_chosen));
        }
        csv.text
    }

    /// One line per region. A field is empty where there is no figure.
    pub fn regions_csv(&self) -> String {
        let mut csv = Csv::new(&REGIONS_COLUMNS);
        let of_mrm_trace = self.mrm_trace.iter().flat_map(|frames| mrm_rows::regions(frames, self.basis));
        self.regions.iter().cloned().chain(of_mrm_trace).for_each(|row| csv.line(&region_fields(&row)));
        csv.text
    }

    fn metrics_fields(&self, row: &RegionTypeRow) -> [String; METRICS_COLUMNS.len()] {
        let RegionTypeRow { retention, write_once, read_frequency, working_set, locality, .. } = row;
        let interval = &row.inter_access_interval;
        [
            row.region_type.to_string(),
            row.n_regions.to_string(),
            number(retention.p50_s),
            number(retention.p90_s),
            number(retention.p99_s),
            number(retention.mean_s),
            number(write_once.ratio),
            number(read_frequency.reads_per_write),
            (working_set.distinct_bytes as f64 / BYTES_PER_MB).to_string(),
            working_set.distinct_pages.to_string(),
            row.suitability.class.name().to_owned(),
            self.definitions.name().to_owned(),
            read_frequency.basis.name().to_owned(),
            retention.basis.name().to_owned(),
            write_once.basis.name().to_owned(),
            interval.basis.name().to_owned(),
            row.suitability.window_s.to_string(),
            row.suitability.is_window_limited.to_string(),
            number(retention.max_s),
            number(retention.life_bytes),
            number(retention.never_read_bytes),
            number(retention.censored_share),
            number(retention.inferred_share),
            read_frequency.loads.to_string(),
            read_frequency.stores.to_string(),
            number(read_frequency.bytes_read),
            number(read_frequency.bytes_written),
            number(read_frequency.read_write_ratio),
            working_set.distinct_bytes.to_string(),
            number(working_set.step_median_bytes),
            number(working_set.step_max_bytes),
            number(locality.sequential_share),
            number(locality.same_page_share),
            number(locality.stride_mean_bytes),
            number(locality.stride_median_bytes),
            number(interval.p50_ns),
            number(interval.p90_ns),
            number(interval.p99_ns),
            number(interval.mean_ns),
            name_of(retention.estimate.map(Estimate::name)),
            number(retention.p50_low_s),
            number(retention.p50_high_s),
            number(retention.p99_low_s),
            number(retention.p99_high_s),
            name_of(write_once.estimate.map(Estimate::name)),
            number(write_once.low),
            number(write_once.high),
            name_of(retention.obstacle.map(Obstacle::name)),
        ]
    }
}

/// The entries that are chosen, in their order.
fn chosen<T, const N: usize>(entries: [T; N], is_chosen: [bool; N]) -> Vec<T> {
    entries.into_iter().zip(is_chosen).filter_map(|(entry, is_chosen)| is_chosen.then_some(entry)).collect()
}

/// The name, or an empty field.
fn name_of(name: Option<&'static str>) -> String {
    name.unwrap_or_default().to_owned()
}

fn region_fields(row: &RegionRow) -> [String; REGIONS_COLUMNS.len()] {
    let RegionRow { retention, write_once, read_frequency, working_set, .. } = row;
    [
        row.region_id.to_string(),
        row.region_type.to_string(),
        number(row.first_seen_ns),
        number(row.last_seen_ns),
        number(retention.p50_s),
        number(retention.p90_s),
        number(retention.p99_s),
        number(retention.mean_s),
        number(retention.max_s),
        retention.basis.name().to_owned(),
        number(retention.life_bytes),
        number(retention.never_read_bytes),
        number(retention.censored_share),
        number(retention.inferred_share),
        number(write_once.ratio),
        write_once.basis.name().to_owned(),
        read_frequency.loads.to_string(),
        read_frequency.stores.to_string(),
        number(read_frequency.bytes_read),
        number(read_frequency.bytes_written),
        number(read_frequency.read_write_ratio),
        number(read_frequency.reads_per_write),
        working_set.distinct_bytes.to_string(),
        working_set.distinct_pages.to_string(),
        read_frequency.basis.name().to_owned(),
    ]
}
