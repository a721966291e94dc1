//! Whether a run counts: what disturbed it, and whether what was recorded is whole.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef};
use dwell_analysis::MetricsReport;
use dwell_analysis::quality::{Quality, QualityInput};
use dwell_analysis::validity::{Validity, ValidityInput};
use dwell_collectors::{BuiltTable, ProcessSamples};
use dwell_events::host::Host;
use dwell_events::schema::Table;
use dwell_events::schema::loss::LossRow;
use dwell_events::{CollectorName, RegionType, Severity};
use dwell_label::Labelled;
use dwell_metadata::{ObserverEffect, RunRecord, Telemetry};
use dwell_store::{RunDir, StoreError, open_table_subset};

use crate::metadata::is_traced;

/// What disturbed the run.
pub(crate) fn validity(
    effect: &ObserverEffect,
    telemetry: &Telemetry,
    host: &Host,
    ignores_throttle: bool,
) -> Validity {
    let sensors = telemetry.sensors.as_ref();
    let input = ValidityInput {
        observer_cpu_pct: effect.observer.cpu_mean_pct,
        observer_memory_share: effect.observer_memory_share,
        observer_machine_memory_share: machine_memory_share(effect, telemetry, host),
        throttle_events: sensors.and_then(|sensors| sensors.throttle_events.available().copied()),
        baseline_cpu_pct: telemetry.baseline.as_ref().and_then(|baseline| baseline.cpu_mean_pct.available().copied()),
        package_temp_peak_c: sensors.and_then(|sensors| sensors.temperature.available()).map(|found| found.peak_c),
        io_contention: None,
    };
    Validity::of(&input, ignores_throttle)
}

/// Memory of the observer by what the machine had available before the run; by all it has if nobody looked at that.
fn machine_memory_share(effect: &ObserverEffect, telemetry: &Telemetry, host: &Host) -> Option<f64> {
    let baseline = telemetry.baseline.as_ref();
    let available = baseline.and_then(|baseline| baseline.memory_available_bytes.available().copied());
    let memory_bytes = available.or(host.memory_bytes).filter(|bytes| *bytes > 0)?;
    Some(effect.observer.rss_peak_bytes? as f64 / memory_bytes as f64)
}

/// Whether what was recorded is whole enough to be used: the accesses; without accesses, the samples of the processes;
/// without those too, the rows of whichever collector was asked for.
pub(crate) fn quality(
    record: &RunRecord,
    labelled: &Labelled,
    collected: (&ProcessSamples, &[BuiltTable], GivenRows),
    metrics: &MetricsReport,
) -> Quality {
    let lost_records = lost_records(&labelled.loss);
    let (samples, tables, given) = collected;
    if let Some(sampled) = tables.iter().find(|built| built.table == Table::Trace) {
        return trace_quality(sampled.source.name().to_owned(), metrics, given, lost_records);
    }
    if !is_traced(record, labelled) {
        let asked = &record.request.collectors;
        let of_another = tables.iter().find(|built| asked.has(built.source) && built.source != CollectorName::PROCESS);
        let of_another = of_another.filter(|_| !asked.has(CollectorName::PROCESS));
        let (collector, rows) =
            of_another.map_or((CollectorName::PROCESS, samples.rows), |built| (built.source, built.rows));
        let collector = collector.name().to_owned();
        return Quality::of(&QualityInput { collector, rows, lost_records, ..QualityInput::default() });
    }
    // The collector names the operation of every access.
    let given = GivenRows { symbol: metrics.trace_rows, ..GivenRows::default() };
    trace_quality(CollectorName::TENSOR_OPS.name().to_owned(), metrics, given, lost_records)
}

/// Records that should be there and are not, as far as they could be counted.
pub(crate) fn lost_records(loss: &[LossRow]) -> u64 {
    let lost = loss.iter().filter(|row| row.kind.severity() == Severity::DataLoss);
    lost.map(|row| row.count).fold(0, u64::saturating_add)
}

/// Rows of a trace with what only some collectors give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenRows {
    /// Rows with a latency.
    pub latency: u64,
    /// Rows with a cache level.
    pub cache_level: u64,
    /// Rows with a symbol.
    pub symbol: u64,
}

impl GivenRows {
    /// Counts those of a run.
    pub(crate) fn of(run: &RunDir) -> Result<Self, StoreError> {
        let mut given = Self::default();
        for batch in open_table_subset(run.path(), Table::Trace, &["access_latency_ns", "cache_level", "symbol"])? {
            let batch = batch?;
            let rows = |name: &str| batch.column_by_name(name).map_or(0, |column| column.len() - column.null_count());
            given.latency += rows("access_latency_ns") as u64;
            given.cache_level += rows("cache_level") as u64;
            let named = batch.column_by_name("symbol").map_or(0, texts_in);
            given.symbol += named as u64;
        }
        Ok(given)
    }
}

/// How many rows of a column have a text that is not empty.
fn texts_in(column: &ArrayRef) -> usize {
    let Some(column) = column.as_dictionary_opt::<Int32Type>() else { return 0 };
    let Some(texts) = column.values().as_string_opt::<i32>() else { return 0 };
    let is_text: Vec<bool> = texts.iter().map(|text| text.is_some_and(|text| !text.is_empty())).collect();
    column.keys().iter().flatten().filter(|key| is_text[*key as usize]).count()
}

/// Whether a trace is whole enough to be used.
pub(crate) fn trace_quality(
    collector: String,
    metrics: &MetricsReport,
    given: GivenRows,
    lost_records: u64,
) -> Quality {
    let unknown = metrics.region_types.iter().find(|row| row.region_type.to_string() == RegionType::Unknown.name());
    Quality::of(&QualityInput {
        collector,
        rows: metrics.trace_rows,
        unknown_rows: unknown.map_or(0, |row| row.read_frequency.loads + row.read_frequency.stores),
        latency_rows: given.latency,
        cache_level_rows: given.cache_level,
        symbol_rows: given.symbol,
        lost_records,
    })
}
