//! Whether a run counts: what disturbed it, and whether what was recorded is whole.

use dwell_analysis::MetricsReport;
use dwell_analysis::quality::{Quality, QualityInput};
use dwell_analysis::validity::{Validity, ValidityInput};
use dwell_collectors::ProcessSamples;
use dwell_events::{CollectorName, RegionType, Severity};
use dwell_label::Labelled;
use dwell_metadata::{ObserverEffect, RunRecord, Telemetry};

use crate::metadata::is_traced;

/// What disturbed the run.
pub(crate) fn validity(effect: &ObserverEffect, telemetry: &Telemetry, ignores_throttle: bool) -> Validity {
    let sensors = telemetry.sensors.as_ref();
    let input = ValidityInput {
        observer_cpu_pct: effect.observer.cpu_mean_pct,
        observer_memory_share: effect.observer_memory_share,
        throttle_events: sensors.and_then(|sensors| sensors.throttle_events.available().copied()),
        baseline_cpu_pct: telemetry.baseline.as_ref().and_then(|baseline| baseline.cpu_mean_pct.available().copied()),
        package_temp_peak_c: sensors.and_then(|sensors| sensors.temperature.available()).map(|found| found.peak_c),
        io_contention: None,
    };
    Validity::of(&input, ignores_throttle)
}

/// Whether what was recorded is whole enough to be used: of the accesses, or of the samples where no accesses were
/// recorded.
pub(crate) fn quality(
    record: &RunRecord,
    labelled: &Labelled,
    samples: &ProcessSamples,
    metrics: &MetricsReport,
) -> Quality {
    let lost = labelled.loss.iter().filter(|row| row.kind.severity() == Severity::DataLoss);
    let lost_records = lost.map(|row| row.count).fold(0, u64::saturating_add);
    if !is_traced(record, labelled) {
        let collector = CollectorName::PROCESS.name().to_owned();
        return Quality::of(&QualityInput { collector, rows: samples.rows, lost_records, ..QualityInput::default() });
    }
    trace_quality(CollectorName::TENSOR_OPS.name().to_owned(), metrics, lost_records)
}

/// Whether a trace is whole enough to be used.
pub(crate) fn trace_quality(collector: String, metrics: &MetricsReport, lost_records: u64) -> Quality {
    let unknown = metrics.region_types.iter().find(|row| row.region_type.to_string() == RegionType::Unknown.name());
    Quality::of(&QualityInput {
        collector,
        rows: metrics.trace_rows,
        unknown_rows: unknown.map_or(0, |row| row.read_frequency.loads + row.read_frequency.stores),
        symbol_rows: metrics.trace_rows,
        lost_records,
        ..QualityInput::default()
    })
}
