//! The columns of `metrics.csv`, and the metric that each belongs to.

use dwell_events::Metric;

/// The columns of `metrics.csv` that say a metric, in their order there.
pub fn metric_columns(metric: Metric) -> Vec<&'static str> {
    METRICS_COLUMNS.iter().filter(|(_, whose)| *whose == Some(metric)).map(|(name, _)| *name).collect()
}

/// Columns of `metrics.csv` and whose they are; those of no metric are always there. The first eleven are those of
/// mrm-trace.
pub(crate) const METRICS_COLUMNS: [(&str, Option<Metric>); 48] = [
    ("region_type", None),
    ("n_regions", None),
    ("retention_p50_s", Some(Metric::Retention)),
    ("retention_p90_s", Some(Metric::Retention)),
    ("retention_p99_s", Some(Metric::Retention)),
    ("retention_mean_s", Some(Metric::Retention)),
    ("write_once_ratio_mean", Some(Metric::WriteOnce)),
    ("reads_per_write_mean", Some(Metric::ReadFrequency)),
    ("working_set_mb_total", Some(Metric::WorkingSet)),
    ("unique_pages_total", Some(Metric::WorkingSet)),
    ("suitability", Some(Metric::Suitability)),
    ("definitions", None),
    ("basis", None),
    ("retention_basis", Some(Metric::Retention)),
    ("write_once_basis", Some(Metric::WriteOnce)),
    ("interval_basis", Some(Metric::InterAccessInterval)),
    ("window_s", None),
    ("is_window_limited", Some(Metric::Suitability)),
    ("retention_max_s", Some(Metric::Retention)),
    ("life_bytes", Some(Metric::Retention)),
    ("never_read_bytes", Some(Metric::Retention)),
    ("censored_share", Some(Metric::Retention)),
    ("inferred_share", Some(Metric::Retention)),
    ("loads", Some(Metric::ReadFrequency)),
    ("stores", Some(Metric::ReadFrequency)),
    ("bytes_read", Some(Metric::ReadFrequency)),
    ("bytes_written", Some(Metric::ReadFrequency)),
    ("read_write_ratio", Some(Metric::ReadFrequency)),
    ("distinct_bytes", Some(Metric::WorkingSet)),
    ("step_working_set_median_bytes", Some(Metric::WorkingSet)),
    ("step_working_set_max_bytes", Some(Metric::WorkingSet)),
    ("sequential_share", Some(Metric::Locality)),
    ("same_page_share", Some(Metric::Locality)),
    ("stride_mean_bytes", Some(Metric::Locality)),
    ("stride_median_bytes", Some(Metric::Locality)),
    ("interval_p50_ns", Some(Metric::InterAccessInterval)),
    ("interval_p90_ns", Some(Metric::InterAccessInterval)),
    ("interval_p99_ns", Some(Metric::InterAccessInterval)),
    ("interval_mean_ns", Some(Metric::InterAccessInterval)),
    ("retention_estimate", Some(Metric::Retention)),
    ("retention_p50_low_s", Some(Metric::Retention)),
    ("retention_p50_high_s", Some(Metric::Retention)),
    ("retention_p99_low_s", Some(Metric::Retention)),
    ("retention_p99_high_s", Some(Metric::Retention)),
    ("write_once_estimate", Some(Metric::WriteOnce)),
    ("write_once_low", Some(Metric::WriteOnce)),
    ("write_once_high", Some(Metric::WriteOnce)),
    ("not_estimable_reason", None),
];
