//! From a planned run to the request that is recorded.

use dwell_analysis::{Options, SuitabilityThresholds};
use dwell_collectors::{MEMORY_SAMPLING, Wanted, chosen, substitutes};
use dwell_config::{AnalyserConfig, Figures, PlannedKind, PlannedRun, actions};
use dwell_events::engine::{EngineOptions, Job};
use dwell_events::server::ServerOptions;
use dwell_events::{CollectorName, RunKind};
use dwell_metadata::{BuildOptions, ExperimentRun, RunRequest, UntracedRun};

use crate::{ChosenCollectors, Setup};

/// What every run of an experiment shares.
pub(crate) struct Requests<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) collectors: &'a ChosenCollectors,
    pub(crate) experiment_id: &'a str,
    pub(crate) command_line: &'a [String],
}

impl Requests<'_> {
    /// The request for one run. `untraced` is the run that it is compared with, if there is one.
    pub(crate) fn request(&self, run: &PlannedRun, untraced: Option<UntracedRun>) -> RunRequest {
        let setup = self.setup;
        let model = &setup.models[run.model_index];
        // A model that cannot be watched was found by the check.
        let collectors = self.collectors.for_model(model).unwrap_or_else(|_| self.collectors.clone());
        let telemetry = &setup.experiment.telemetry;
        let (mut used, mut fallback) = (collectors.used, collectors.usable_fallbacks);
        if matches!(run.kind, PlannedKind::Untraced(_)) {
            [&mut used, &mut fallback]
                .into_iter()
                .for_each(|names| names.retain(|&name| name != CollectorName::TENSOR_OPS));
        }
        let sample_interval_ms = setup.experiment.collectors.process.sample_interval_ms;
        let wanted = Wanted {
            sample_interval_ms,
            kv_events: model.kv_events.as_ref(),
            is_in_browser: model.engine.profile().is_in_browser,
            memory_sampling: MEMORY_SAMPLING,
        };
        let used = chosen(&used, &wanted);
        RunRequest {
            job: job(setup, run),
            model_id: model.id.clone(),
            substitutes: substitutes(&fallback, &used, &collectors.refusals, &wanted),
            collectors: used,
            baseline_ms: (telemetry.baseline_secs * 1000.0) as u64,
            sensor_interval_ms: telemetry.sensor_interval_ms,
            command_line: self.command_line.to_vec(),
            build: build_options(setup),
            experiment: Some(self.experiment_run(run.kind)),
            fallbacks: collectors.fallbacks,
            refusals: collectors.refusals,
            untraced,
        }
    }

    fn experiment_run(&self, kind: PlannedKind) -> ExperimentRun {
        let (run_kind, repetition) = match kind {
            PlannedKind::Warmup(number) => (RunKind::Warmup, number),
            PlannedKind::Untraced(number) => (RunKind::Untraced, number),
            PlannedKind::Repetition(number) => (RunKind::Repetition, number),
        };
        ExperimentRun {
            id: self.experiment_id.to_owned(),
            about: self.setup.experiment.experiment.clone(),
            run_kind,
            repetition,
        }
    }
}

fn job(setup: &Setup, run: &PlannedRun) -> Job {
    let model = &setup.models[run.model_index];
    let trained_context = model.file.as_ref().map(|file| file.info.context_train);
    Job {
        engine: model.engine,
        server: ServerOptions { start: run.combination.start, ..model.server.clone() },
        options: engine_options(setup, run),
        actions: actions(&setup.prompts, &run.combination, trained_context),
    }
}

/// How the engine is set up for a run.
pub(crate) fn engine_options(setup: &Setup, run: &PlannedRun) -> EngineOptions {
    let combination = &run.combination;
    let model = &setup.models[run.model_index];
    EngineOptions {
        context_length: combination.context_length,
        threads: combination.threads,
        parallel: combination.batch_size,
        kv_type_k: combination.kv_type,
        kv_type_v: combination.kv_type,
        flash_attention: combination.flash_attention,
        // How a server is asked is a key of its own.
        chat_template: model.engine.is_embedded()
            && model.file.as_ref().is_some_and(|file| file.chat_template.is_some()),
        // Every repetition computes the same number of tokens, whatever the model would say.
        ignore_end: model.engine.profile().ignores_end,
        time_resolution: setup.experiment.collectors.tensor_ops.time_resolution,
        ..EngineOptions::new(model.file.as_ref().map(|file| file.path.clone()).unwrap_or_default())
    }
}

fn build_options(setup: &Setup) -> BuildOptions {
    let experiment = &setup.experiment;
    BuildOptions {
        analysis: analysis_options(&experiment.analyser),
        metrics: experiment.analyser.metrics.clone(),
        bins: experiment.analyser.bins as usize,
        draws_figures: experiment.output.figures == Figures::Svg,
        compression: experiment.output.compression,
        rules: setup.rules.clone(),
        unknown_policy: experiment.labeller.unknown_policy,
        ignores_throttle: !experiment.telemetry.invalidate_on_throttle,
    }
}

fn analysis_options(analyser: &AnalyserConfig) -> Options {
    let thresholds = &analyser.thresholds;
    Options {
        definitions: analyser.definitions,
        thresholds: SuitabilityThresholds {
            high_write_once: thresholds.high_write_once,
            high_retention_s: thresholds.high_retention_s,
            medium_write_once: thresholds.medium_write_once,
            medium_retention_s: thresholds.medium_retention_s,
            tokens_per_s: thresholds.at_tokens_per_sec,
        },
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_experiment_that_says_nothing_is_built_as_a_single_run() {
        let text = "experiment: {name: plain}\nmodels: [{id: tiny, path: tiny.gguf}]\n";
        let experiment = dwell_config::parse(text, Path::new("plain.yaml")).unwrap().experiment;
        let defaults = BuildOptions::default();
        assert_eq!(analysis_options(&experiment.analyser), defaults.analysis);
        assert_eq!(experiment.analyser.metrics, defaults.metrics);
        assert_eq!(experiment.analyser.bins as usize, defaults.bins);
    }
}
