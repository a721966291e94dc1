//! Quality: whether a trace holds what its collector is expected to give.

use dwell_events::CollectorName;
use serde::{Deserialize, Serialize};

/// Whether a trace can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum QualityStatus {
    /// It holds what is expected.
    Pass,
    /// Some of it is missing; some figures suffer.
    Warn,
    /// So much is missing that it is not to be used.
    Fail,
}

impl QualityStatus {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            QualityStatus::Pass => "PASS",
            QualityStatus::Warn => "WARN",
            QualityStatus::Fail => "FAIL",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [QualityStatus::Pass, QualityStatus::Warn, QualityStatus::Fail].into_iter().find(|status| status.name() == name)
    }
}

/// What a trace is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// There are rows at all.
    Rows,
    /// Rows whose memory is attributed.
    RegionLabels,
    /// Records that were not lost.
    KeptRecords,
    /// Rows with a latency.
    Latency,
    /// Rows with a cache level.
    CacheLevel,
    /// Rows with a symbol.
    Symbols,
}

impl CheckName {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            CheckName::Rows => "rows",
            CheckName::RegionLabels => "region_labels",
            CheckName::KeptRecords => "kept_records",
            CheckName::Latency => "latency",
            CheckName::CacheLevel => "cache_level",
            CheckName::Symbols => "symbols",
        }
    }
}

/// From which share on a check passes, and warns; below that it fails.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareLimits {
    /// Least share that passes.
    pub pass_min: f64,
    /// Least share that does not fail.
    pub warn_min: f64,
}

/// What is expected of a collector. None: it does not give it, so it is not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Thresholds {
    /// Share of the rows whose memory is attributed.
    pub region_labels: Option<ShareLimits>,
    /// Share of the records that were not lost.
    pub kept_records: Option<ShareLimits>,
    /// Share of the rows with a latency.
    pub latency: Option<ShareLimits>,
    /// Share of the rows with a cache level.
    pub cache_level: Option<ShareLimits>,
}

const fn limits(pass_min: f64, warn_min: f64) -> Option<ShareLimits> {
    Some(ShareLimits { pass_min, warn_min })
}

impl Thresholds {
    /// What is expected of a collector: of ours, of those that mrm-trace 0.1.23 checks
    /// (`perf_mem`, `perf_mem_labelled`, `memray`), or of any other.
    pub fn for_collector(name: &str) -> Self {
        let nothing = Self::default();
        match name {
            "tensor_ops" => Self { region_labels: limits(0.999, 0.95), kept_records: limits(1.0, 0.95), ..nothing },
            "perf_mem" => Self { latency: limits(0.95, 0.5), cache_level: limits(0.85, 0.5), ..nothing },
            "perf_mem_labelled" => Self { region_labels: limits(0.05, 0.001), ..Self::for_collector("perf_mem") },
            // Sees every access, and what it cost none of them.
            "lackey" => nothing,
            "memray" => Self { latency: limits(0.0, 0.0), cache_level: limits(0.0, 0.0), ..nothing },
            ours if CollectorName::from_name(ours).is_some() => nothing,
            _ => Self { latency: limits(0.5, 0.1), cache_level: limits(0.5, 0.1), ..nothing },
        }
    }
}

/// What a collector gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QualityInput {
    /// The collector.
    pub collector: String,
    /// Rows of its table; samples of the process, if it watches only that.
    pub rows: u64,
    /// Rows whose memory is not attributed.
    pub unknown_rows: u64,
    /// Rows with a latency.
    pub latency_rows: u64,
    /// Rows with a cache level.
    pub cache_level_rows: u64,
    /// Rows with a symbol.
    pub symbol_rows: u64,
    /// Counts of all losses of severity `data_loss`, added up.
    pub lost_records: u64,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked.
    pub name: CheckName,
    /// The share that was found; none without rows.
    pub share: Option<f64>,
    /// Least share that passes; none if it is not expected of the collector.
    pub pass_min: Option<f64>,
    /// Least share that does not fail; none if it is not expected of the collector.
    pub warn_min: Option<f64>,
    /// None if it is not expected of the collector, hence not checked.
    pub status: Option<QualityStatus>,
}

/// Whether a trace holds what its collector is expected to give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The collector whose thresholds apply.
    pub collector: String,
    /// The worst of the checks.
    pub status: QualityStatus,
    /// Every check, also those that do not apply.
    pub checks: Vec<Check>,
}

impl Quality {
    /// Checks what a collector gave by the thresholds for it.
    pub fn of(input: &QualityInput) -> Self {
        let thresholds = Thresholds::for_collector(&input.collector);
        let share = |part: u64| crate::metrics::share(part, input.rows);
        let kept = crate::metrics::share(input.rows, input.rows.saturating_add(input.lost_records));
        let has_rows = if input.rows > 0 { 1.0 } else { 0.0 };
        let any_row = limits(1.0, 1.0);
        let checks = vec![
            check(CheckName::Rows, Some(has_rows), any_row),
            check(
                CheckName::RegionLabels,
                share(input.rows.saturating_sub(input.unknown_rows)),
                thresholds.region_labels,
            ),
            check(CheckName::KeptRecords, kept, thresholds.kept_records),
            check(CheckName::Latency, share(input.latency_rows), thresholds.latency),
            check(CheckName::CacheLevel, share(input.cache_level_rows), thresholds.cache_level),
            check(CheckName::Symbols, share(input.symbol_rows), None),
        ];
        let status = checks.iter().filter_map(|check| check.status).max().unwrap_or(QualityStatus::Fail);
        Self { collector: input.collector.clone(), status, checks }
    }
}

fn check(name: CheckName, share: Option<f64>, limits: Option<ShareLimits>) -> Check {
    let status = limits.map(|limits| match share {
        Some(share) if share >= limits.pass_min => QualityStatus::Pass,
        Some(share) if share >= limits.warn_min => QualityStatus::Warn,
        _ => QualityStatus::Fail,
    });
    Check {
        name,
        share,
        pass_min: limits.map(|limits| limits.pass_min),
        warn_min: limits.map(|limits| limits.warn_min),
        status,
    }
}
