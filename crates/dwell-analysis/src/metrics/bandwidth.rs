//! Bandwidth: how fast memory is read and written, and how much of it is touched, from window to window.

use std::borrow::Cow;

use dwell_events::{Metric, RegionType};
use serde::Serialize;

use super::{OfType, TypeFigures};
use crate::column::{Column, Getter, Merging, MetricTable, Unit, column};
use crate::region_type::RegionTypeName;
use crate::requested::{WindowTotals, WindowTraffic};
use crate::sampling::Estimate;
use crate::statistics::median;
use crate::totals::Totals;

/// How fast memory is read and written, and how much of it is touched, in windows of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bandwidth {
    /// What the figures are worth; none if nobody asked for them.
    pub estimate: Option<Estimate>,
    /// How long a window is.
    pub window_s: Option<f64>,
    /// Bytes loaded per second.
    pub read: Rates,
    /// Bytes stored per second.
    pub written: Rates,
    /// Distinct bytes touched in a window, median over the windows that touched any.
    pub working_set_median_bytes: Option<f64>,
    /// The same, most of any window.
    pub working_set_max_bytes: Option<u64>,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// From the first to the last row.
    pub mean_bytes_per_s: Option<f64>,
    /// The rate that 99 % of the windows do not exceed.
    pub p99_bytes_per_s: Option<f64>,
    /// The window with the highest rate.
    pub peak_bytes_per_s: Option<f64>,
}

impl Rates {
    fn of(windows: &WindowTotals, bytes_of: fn(&WindowTraffic) -> u64) -> Self {
        let mut rates: Vec<f64> = windows.traffic.iter().map(|row| bytes_of(row) as f64 / row.window_s).collect();
        let bytes: f64 = windows.traffic.iter().map(|row| bytes_of(row) as f64).sum();
        rates.sort_by(f64::total_cmp);
        // In the windows that are not listed nothing was moved.
        let idle = windows.windows as usize - rates.len();
        let rank = (0.99 * windows.windows as f64).ceil() as usize;
        let p99 = rank.checked_sub(idle + 1).map_or(0.0, |place| rates[place]);
        Self {
            // Rows of one time are as fast as they like.
            mean_bytes_per_s: (windows.observed_s > 0.0).then(|| bytes / windows.observed_s),
            p99_bytes_per_s: Some(p99),
            peak_bytes_per_s: Some(rates.last().copied().unwrap_or(0.0)),
        }
    }
}

impl TypeFigures for Bandwidth {
    type Tally = ();

    fn of(of_type: &OfType<'_>, (): &()) -> Self {
        let windows = of_type.totals.requested.windows.as_ref();
        let estimate = windows.map(|_| of_type.requested_estimate());
        let is_known = |windows: &&WindowTotals| estimate == Some(Estimate::Exact) && windows.windows > 0;
        let Some(windows) = windows.filter(is_known) else {
            return Self { estimate, ..Self::default() };
        };
        let touched = windows.traffic.iter().map(|row| row.working_set_bytes).filter(|bytes| *bytes > 0);
        let mut touched_bytes: Vec<f64> = touched.clone().map(|bytes| bytes as f64).collect();
        Self {
            estimate,
            window_s: Some(windows.window_s),
            read: Rates::of(windows, |row| row.bytes_read),
            written: Rates::of(windows, |row| row.bytes_written),
            working_set_median_bytes: median(&mut touched_bytes),
            working_set_max_bytes: touched.max(),
        }
    }
}

/// The columns of the metric.
#[rustfmt::skip]
pub(crate) static TABLE: MetricTable = MetricTable {
    metric: Some(Metric::Bandwidth),
    page: "docs/metrics/bandwidth.md",
    by_type: &[
        column(77, "bandwidth_estimate", Unit::None, Merging::Derived, Getter::Text(|row| row.bandwidth.estimate.map(Estimate::name).map(Cow::from)),
            "what the figures by window are worth: `exact` or `not_estimable` (sampled)"),
        column(78, "bandwidth_window_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| row.bandwidth.window_s),
            "length of a window of time"),
        column(79, "read_mean_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.read.mean_bytes_per_s),
            "bytes loaded per second, from the first to the last row of the trace"),
        column(80, "read_p99_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.read.p99_bytes_per_s),
            "the same, 99th percentile over windows"),
        column(81, "read_peak_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.read.peak_bytes_per_s),
            "the same, most of any window"),
        column(82, "written_mean_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.written.mean_bytes_per_s),
            "bytes stored per second, from the first to the last row of the trace"),
        column(83, "written_p99_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.written.p99_bytes_per_s),
            "the same, 99th percentile over windows"),
        column(84, "written_peak_bytes_per_s", Unit::BytesPerSecond, Merging::Derived, Getter::Number(|row| row.bandwidth.written.peak_bytes_per_s),
            "the same, most of any window"),
        column(85, "window_working_set_median_bytes", Unit::Bytes, Merging::Derived, Getter::Number(|row| row.bandwidth.working_set_median_bytes),
            "distinct bytes touched in a window, median over windows that touched any"),
        column(86, "window_working_set_max_bytes", Unit::Bytes, Merging::Derived, Getter::Integer(|row| row.bandwidth.working_set_max_bytes),
            "distinct bytes touched in a window, most of any window"),
    ],
    by_region: &[],
};

/// One window of time in which memory of a type was accessed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BandwidthRow {
    /// The type.
    pub region_type: RegionTypeName,
    /// When the window begins, on the clock of the trace.
    pub from_ns: u64,
    /// How long it is.
    pub window_s: f64,
    /// Bytes loaded in it.
    pub bytes_read: u64,
    /// Bytes stored in it.
    pub bytes_written: u64,
    /// Distinct bytes touched in it.
    pub working_set_bytes: u64,
}

/// File of these rows.
pub const BANDWIDTH_TABLE: &str = "bandwidth.csv";

/// The columns of `bandwidth.csv`, in order.
#[rustfmt::skip]
pub static BANDWIDTH_COLUMNS: [Column<BandwidthRow>; 6] = [
    column(0, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
        RegionType::MEANING),
    column(1, "from_ns", Unit::Nanoseconds, Merging::Same, Getter::Integer(|row| Some(row.from_ns)),
        "when the window begins, on the clock of `timestamp_ns`"),
    column(2, "window_s", Unit::Seconds, Merging::Extreme, Getter::Number(|row| Some(row.window_s)),
        "length of the window"),
    column(3, "bytes_read", Unit::Bytes, Merging::Sum, Getter::Integer(|row| Some(row.bytes_read)),
        "bytes loaded in the window"),
    column(4, "bytes_written", Unit::Bytes, Merging::Sum, Getter::Integer(|row| Some(row.bytes_written)),
        "bytes stored in the window"),
    column(5, "working_set_bytes", Unit::Bytes, Merging::Sum, Getter::Integer(|row| Some(row.working_set_bytes)),
        "distinct bytes touched in the window; a byte counts for the type that touches it first"),
];

/// One row per type and window in which it was accessed; none if accesses were sampled.
pub(crate) fn rows(totals: &Totals) -> Vec<BandwidthRow> {
    if totals.observation.samples.is_sampled() {
        return Vec::new();
    }
    let rows_of_type = |of_type: &crate::totals::TypeTotals| {
        let name = RegionTypeName::from(of_type.region_type().name());
        let traffic = of_type.requested.windows.iter().flat_map(|windows| &windows.traffic);
        traffic.map(|window| row(name.clone(), window)).collect::<Vec<_>>()
    };
    totals.types.iter().flat_map(rows_of_type).collect()
}

fn row(region_type: RegionTypeName, window: &WindowTraffic) -> BandwidthRow {
    BandwidthRow {
        region_type,
        from_ns: window.from_ns,
        window_s: window.window_s,
        bytes_read: window.bytes_read,
        bytes_written: window.bytes_written,
        working_set_bytes: window.working_set_bytes,
    }
}
