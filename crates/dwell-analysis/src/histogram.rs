//! How many bytes lived how long.

use std::borrow::Cow;

use serde::Serialize;

use crate::column::{Column, Getter, Merging, Unit, column, csv_text};
use crate::metrics::NS_PER_S;
use crate::region_type::RegionTypeName;
use crate::table::MetricsReport;

/// Bytes whose lives were about equally long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistogramRow {
    /// The type.
    pub region_type: RegionTypeName,
    /// Shortest life of the bin.
    pub from_s: f64,
    /// Where the next bin begins; in the last bin the longest life, which is in it.
    pub to_s: f64,
    /// Bytes of the lives; a byte counts once for each of its lives.
    pub bytes: u64,
    /// Of these, bytes of lives that had not ended when the trace did, as far as they were seen.
    pub censored_bytes: u64,
}

/// The columns of `retention_histogram.csv`, in order.
#[rustfmt::skip]
pub static HISTOGRAM_COLUMNS: [Column<HistogramRow>; 5] = [
    column(0, "region_type", Unit::None, Merging::Same, Getter::Text(|row| Some(Cow::from(&*row.region_type))),
        "region type"),
    column(1, "from_s", Unit::Seconds, Merging::Derived, Getter::Number(|row| Some(row.from_s)),
        "shortest life of the bin"),
    column(2, "to_s", Unit::Seconds, Merging::Derived, Getter::Number(|row| Some(row.to_s)),
        "where the next bin begins; in the last bin the longest life"),
    column(3, "bytes", Unit::Bytes, Merging::Derived, Getter::Integer(|row| Some(row.bytes)),
        "bytes of the lives; a byte counts once for each life"),
    column(4, "censored_bytes", Unit::Bytes, Merging::Derived, Getter::Integer(|row| Some(row.censored_bytes)),
        "of them, bytes of lives that had not ended when the run did: they are at least so long"),
];

/// Lives of one region type, gathered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatheredLives {
    pub(crate) region_type: RegionTypeName,
    /// Nanoseconds and bytes.
    pub(crate) ended: Vec<(f64, u64)>,
    /// The same of lives that had not ended.
    pub(crate) open: Vec<(f64, u64)>,
    pub(crate) never_read_bytes: u64,
    /// Of them, bytes of lives that had not ended.
    pub(crate) never_read_open_bytes: u64,
    /// The longest life; those above are means of lives that are about equally long.
    pub(crate) longest_ns: u64,
}

impl GatheredLives {
    /// A row of the lives that were so long.
    fn row(&self, from_ns: f64, to_ns: f64, is_meant: impl Fn(f64) -> bool) -> HistogramRow {
        let bytes_of = |lives: &[(f64, u64)]| {
            let meant = lives.iter().filter(|(ns, _)| is_meant(*ns)).map(|&(_, bytes)| bytes);
            meant.fold(0, u64::saturating_add)
        };
        let censored_bytes = bytes_of(&self.open);
        HistogramRow {
            region_type: self.region_type.clone(),
            from_s: from_ns / NS_PER_S,
            to_s: to_ns / NS_PER_S,
            bytes: censored_bytes.saturating_add(bytes_of(&self.ended)),
            censored_bytes,
        }
    }
}

/// The bins of all types.
struct Bins {
    shortest_ns: f64,
    longest_ns: f64,
    count: usize,
}

impl Bins {
    /// None if no life is longer than 0.
    fn over(gathered: &[GatheredLives], count: usize) -> Option<Self> {
        let lives = gathered.iter().flat_map(|of_type| of_type.ended.iter().chain(&of_type.open));
        let (shortest_ns, longest_ns) = lives
            .map(|&(ns, _)| ns)
            .filter(|&ns| ns > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(shortest, longest), ns| (shortest.min(ns), longest.max(ns)));
        let seen_ns = gathered.iter().map(|of_type| of_type.longest_ns as f64).fold(0.0, f64::max);
        let longest_ns = longest_ns.max(seen_ns);
        let count = if shortest_ns == longest_ns { 1 } else { count.max(1) };
        (longest_ns > 0.0).then_some(Self { shortest_ns, longest_ns, count })
    }

    /// Where a bin begins; the longest life for the one after the last.
    fn edge_ns(&self, bin: usize) -> f64 {
        match bin {
            0 => self.shortest_ns,
            bin if bin == self.count => self.longest_ns,
            bin => self.shortest_ns * (self.longest_ns / self.shortest_ns).powf(bin as f64 / self.count as f64),
        }
    }
}

impl MetricsReport {
    /// How many bytes of each region type lived how long, in `bins` bins of equal ratio from the shortest to the
    /// longest life of the report.
    ///
    /// A first bin from 0 holds the lives of no length and the bytes that were never read: neither had to be kept. The
    /// bytes of a type add up to its `life_bytes`. By the definitions of mrm-trace a region is one life, as heavy as
    /// its working set. Types whose retention is not exact have no rows.
    pub fn retention_histogram(&self, bins: usize) -> Vec<HistogramRow> {
        let gathered = self.gathered_lives();
        let Some(bins) = Bins::over(&gathered, bins) else {
            return gathered.iter().map(|of_type| first_bin(of_type, 0.0)).collect();
        };
        gathered.iter().flat_map(|of_type| rows_of_type(of_type, &bins)).collect()
    }

    /// The same as CSV.
    pub fn retention_histogram_csv(&self, bins: usize) -> String {
        csv_text(&HISTOGRAM_COLUMNS.each_ref(), &self.retention_histogram(bins), |_| true)
    }

    fn gathered_lives(&self) -> Vec<GatheredLives> {
        match &self.mrm_trace {
            None => self.totals.gathered_lives(),
            Some(frames) => self.region_types.iter().map(|row| frames.gathered_lives(&row.region_type)).collect(),
        }
    }
}

fn first_bin(of_type: &GatheredLives, to_ns: f64) -> HistogramRow {
    let row = of_type.row(0.0, to_ns, |ns| ns <= 0.0);
    HistogramRow {
        bytes: row.bytes.saturating_add(of_type.never_read_bytes),
        censored_bytes: row.censored_bytes.saturating_add(of_type.never_read_open_bytes),
        ..row
    }
}

fn rows_of_type<'a>(of_type: &'a GatheredLives, bins: &'a Bins) -> impl Iterator<Item = HistogramRow> + 'a {
    let row = |bin: usize| {
        let (from_ns, to_ns) = (bins.edge_ns(bin), bins.edge_ns(bin + 1));
        let is_last = bin + 1 == bins.count;
        of_type.row(from_ns, to_ns, |ns| ns >= from_ns && (ns < to_ns || is_last))
    };
    std::iter::once(first_bin(of_type, bins.shortest_ns)).chain((0..bins.count).map(row))
}
