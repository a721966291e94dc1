//! The row of a run in `results/manifest.csv`.

use dwell_analysis::{MetricsReport, RegionTypeRow};
use dwell_events::RunKind;
use dwell_events::engine::{Action, EngineOptions};
use dwell_events::host::Host;
use dwell_host::read_host;
use dwell_metadata::{ExperimentRun, RunRequest};
use dwell_store::{ManifestRow, RunDir, unix_secs_now, utc_text};

use crate::metadata::Metadata;

/// The row of a run that has its tables.
pub(crate) fn run_row(run: &RunDir, metadata: &Metadata, metrics: &MetricsReport) -> ManifestRow {
    let generation = metadata.generation.as_ref();
    let sensors = metadata.telemetry.sensors.as_ref();
    let effect = &metadata.observer_effect;
    let speed_share = effect.slowdown.as_ref().and_then(|slowdown| slowdown.decode_speed_share);
    let reasons: Vec<String> = metadata.validity.reasons.iter().map(ToString::to_string).collect();
    let asked = Asked {
        run_id: run.run_id(),
        model_id: &metadata.model_id,
        options: &metadata.options,
        actions: &metadata.actions,
        experiment: metadata.experiment.as_ref(),
        host: &metadata.host,
    };
    ManifestRow {
        collector: metadata.collectors.used.join("+"),
        run_validity: metadata.validity.class.name().to_owned(),
        peak_temp_c: sensors.and_then(|sensors| sensors.temperature.available()).map(|found| found.peak_c),
        throttle_events: sensors.and_then(|sensors| sensors.throttle_events.available().copied()),
        total_wall_s: wall_s(metadata),
        avg_tok_per_s: generation.and_then(|generation| generation.decode_tokens_per_s),
        total_output_tokens: generation.map(|generation| generation.generated_tokens),
        retention_p99_s: mean(metrics, |row| row.retention.p99_s),
        write_once_ratio_mean: mean(metrics, |row| row.write_once.ratio),
        working_set_pages_total: Some(metrics.region_types.iter().map(|row| row.working_set.distinct_pages).sum()),
        has_prompt_outputs: Some(metadata.tables.get("tokens").is_some_and(|tokens| tokens.rows > 0)),
        recorded_at: metadata.started_at_utc.clone(),
        state: metadata.state.to_owned(),
        quality: metadata.quality.status.name().to_owned(),
        prompt_tok_per_s: generation.and_then(|generation| generation.prompt_tokens_per_s),
        observer_cpu_pct: effect.observer.cpu_mean_pct,
        observer_memory_share: effect.observer_memory_share,
        slowdown: speed_share.filter(|&share| share > 0.0).map(|share| 1.0 / share),
        failure: metadata.failure.clone().unwrap_or_default(),
        validity_reasons: reasons.join("; "),
        path: format!("{}/{}", run.model_id(), run.run_id()),
        ..asked.row()
    }
}

/// The row of a run that left nothing: it failed before anything was computed.
pub fn failed_row(run_id: &str, request: &RunRequest, failure: String) -> ManifestRow {
    let asked = Asked {
        run_id,
        model_id: &request.model_id,
        options: &request.job.options,
        actions: &request.job.actions,
        experiment: request.experiment.as_ref(),
        host: &read_host(),
    };
    let recorded_at = utc_text(unix_secs_now());
    ManifestRow { state: "failed".to_owned(), failure, recorded_at, ..asked.row() }
}

/// What was asked for, and on which machine.
struct Asked<'a> {
    run_id: &'a str,
    model_id: &'a str,
    options: &'a EngineOptions,
    actions: &'a [Action],
    experiment: Option<&'a ExperimentRun>,
    host: &'a Host,
}

impl Asked<'_> {
    fn row(&self) -> ManifestRow {
        let Self { options, host, experiment, .. } = self;
        ManifestRow {
            run_id: self.run_id.to_owned(),
            machine_id: host.machine_id.clone(),
            model_id: self.model_id.to_owned(),
            context_length: Some(options.context_length),
            batch_size: Some(options.parallel),
            max_tokens_per_prompt: most_tokens(self.actions),
            rep: experiment.map(|experiment| experiment.repetition),
            cpu_model: host.cpu_model.clone().unwrap_or_default(),
            cpu_freq_scaling_max_mhz: scaling_max_mhz(host),
            os: host.os.clone().unwrap_or_default(),
            kernel: host.kernel.clone(),
            experiment: experiment.map(|experiment| experiment.id.clone()).unwrap_or_default(),
            kind: experiment.map_or(RunKind::Single, |experiment| experiment.run_kind).name().to_owned(),
            kv_type: kv_type(options),
            flash_attention: Some(options.flash_attention),
            threads: Some(options.threads),
            ..ManifestRow::default()
        }
    }
}

fn most_tokens(actions: &[Action]) -> Option<u32> {
    let tokens = |action: &Action| match action {
        Action::Generate { max_tokens, .. } => Some(*max_tokens),
        _ => None,
    };
    actions.iter().filter_map(tokens).max()
}

/// One name if keys and values have the same type, else both.
fn kv_type(options: &EngineOptions) -> String {
    let (keys, values) = (options.kv_type_k.name(), options.kv_type_v.name());
    if keys == values { keys.to_owned() } else { format!("{keys}/{values}") }
}

/// Highest frequency that the processors are allowed.
fn scaling_max_mhz(host: &Host) -> Option<f64> {
    host.frequency.available()?.scaling_max_mhz.available().map(|&mhz| mhz as f64)
}

/// From the first to the last phase.
fn wall_s(metadata: &Metadata) -> Option<f64> {
    let (first, last) = (metadata.phases.first()?, metadata.phases.last()?);
    Some(last.end_ns.saturating_sub(first.begin_ns) as f64 / 1e9)
}

/// The mean over the region types that have the figure, as in the manifest of mrm-trace.
fn mean(metrics: &MetricsReport, figure: fn(&RegionTypeRow) -> Option<f64>) -> Option<f64> {
    let figures: Vec<f64> = metrics.region_types.iter().filter_map(figure).collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}
