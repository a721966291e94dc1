//! The row of a run in `results/manifest.csv`.

use dwell_analysis::MetricsReport;
use dwell_events::host::Host;
use dwell_host::read_host;
use dwell_metadata::{RunMetadata, RunRequest};
use dwell_store::{ManifestRow, RunDir, unix_secs_now, utc_text};

/// The row of a run that has its tables.
pub(crate) fn run_row(run: &RunDir, metadata: &RunMetadata, metrics: Option<&MetricsReport>) -> ManifestRow {
    let generation = metadata.generation.as_ref();
    let sensors = metadata.telemetry.sensors.as_ref();
    let effect = metadata.observer_effect.as_ref();
    let speed_share = effect.and_then(|effect| effect.slowdown.as_ref()?.decode_speed_share);
    let reasons = metadata.validity.iter().flat_map(|validity| &validity.reasons);
    let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
    ManifestRow {
        collector: metadata.collectors.used.join("+"),
        run_validity: metadata.validity_class().name().to_owned(),
        peak_temp_c: sensors.and_then(|sensors| sensors.temperature.available()).map(|found| found.peak_c),
        throttle_events: sensors.and_then(|sensors| sensors.throttle_events.available().copied()),
        total_wall_s: wall_s(metadata),
        avg_tok_per_s: generation.and_then(|generation| generation.decode_tokens_per_s),
        total_output_tokens: generation.map(|generation| generation.generated_tokens),
        retention_p99_s: metrics.and_then(MetricsReport::retention_p99_s),
        write_once_ratio_mean: metrics.and_then(MetricsReport::write_once_ratio),
        working_set_pages_total: metrics
            .map(|metrics| metrics.region_types.iter().map(|row| row.working_set.distinct_pages).sum()),
        has_prompt_outputs: metadata.tables.get("tokens").map(|tokens| tokens.rows > 0),
        recorded_at: metadata.started_at_utc.clone(),
        state: metadata.state.clone(),
        quality: metadata.quality.as_ref().map(|quality| quality.status.name().to_owned()).unwrap_or_default(),
        prompt_tok_per_s: generation.and_then(|generation| generation.prompt_tokens_per_s),
        observer_cpu_pct: effect.and_then(|effect| effect.observer.cpu_mean_pct),
        observer_memory_share: effect.and_then(|effect| effect.observer_memory_share),
        slowdown: speed_share.filter(|&share| share > 0.0).map(|share| 1.0 / share),
        failure: metadata.failure.clone().unwrap_or_default(),
        validity_reasons: reasons.join("; "),
        path: format!("{}/{}", run.model_id(), run.run_id()),
        ..asked_row(metadata)
    }
}

/// The row of a run that left nothing: it failed before anything was computed.
pub fn failed_row(run_id: &str, request: &RunRequest, failure: String) -> ManifestRow {
    let metadata =
        RunMetadata { run_id: run_id.to_owned(), host: Some(read_host()), ..RunMetadata::of_request(request) };
    let recorded_at = utc_text(unix_secs_now());
    ManifestRow { state: "failed".to_owned(), failure, recorded_at, ..asked_row(&metadata) }
}

/// What was asked for, and on which machine.
fn asked_row(metadata: &RunMetadata) -> ManifestRow {
    let narrow = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    let (host, experiment) = (metadata.host.as_ref(), metadata.experiment.as_ref());
    ManifestRow {
        run_id: metadata.run_id.clone(),
        machine_id: host.map(|host| host.machine_id.clone()).unwrap_or_default(),
        model_id: metadata.model_id.clone(),
        context_length: narrow(metadata.option_number("context_length")),
        batch_size: narrow(metadata.option_number("parallel")),
        max_tokens_per_prompt: narrow(metadata.most_output_tokens()),
        rep: experiment.map(|experiment| experiment.repetition),
        cpu_model: metadata.cpu_model().unwrap_or_default().to_owned(),
        cpu_freq_scaling_max_mhz: host.and_then(scaling_max_mhz),
        os: host.and_then(|host| host.os.clone()).unwrap_or_default(),
        kernel: host.map(|host| host.kernel.clone()).unwrap_or_default(),
        experiment: experiment.map(|experiment| experiment.id.clone()).unwrap_or_default(),
        kind: metadata.kind().name().to_owned(),
        kv_type: metadata.kv_type().unwrap_or_default(),
        flash_attention: metadata.option_flag("flash_attention"),
        threads: narrow(metadata.option_number("threads")),
        ..ManifestRow::default()
    }
}

/// Highest frequency that the processors are allowed.
fn scaling_max_mhz(host: &Host) -> Option<f64> {
    host.frequency.available()?.scaling_max_mhz.available().map(|&mhz| mhz as f64)
}

/// From the first to the last phase; for imported events, from the first to the last.
fn wall_s(metadata: &RunMetadata) -> Option<f64> {
    let imported = || {
        let report = &metadata.kv_events.as_ref()?.report;
        Some((report.first_unix_ns?, report.last_unix_ns?))
    };
    let phases = metadata.phases.first().zip(metadata.phases.last());
    let (begin_ns, end_ns) = phases.map(|(first, last)| (first.begin_ns, last.end_ns)).or_else(imported)?;
    Some(end_ns.saturating_sub(begin_ns) as f64 / 1e9)
}
