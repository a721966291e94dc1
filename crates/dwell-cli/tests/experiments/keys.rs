//! Every key of an experiment file changes what happens: a key without a check here fails, and so does a check without
//! a key.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{Run, RunningServer, text_of};
use crate::key_effects as effect;
use crate::lab::{Lab, Outcome, SMALLEST};
use crate::served::{Publisher, llama_server};
use crate::server_effects as server;

/// The experiment in which as many keys as possible have another value than in [`SMALLEST`].
const OTHER: &str = "\
experiment:
  name: other
  description: About bytes
  version: 2.5.0
  authors: [Ada Lovelace]
  institution: Analytical Society
  paper_ref: 10.1000/182
  licence: CC-BY-4.0
models:
  - {id: model-b, path: tiny-b.gguf}
sweep:
  context_lengths: [512, 768]
  batch_sizes: [2]
  output_tokens: [3]
  kv_cache_types: [q8_0]
  flash_attention: [true]
  threads: [2]
  repetitions: 2
  warmup_runs: 1
prompts: {source: other_prompts.yaml, categories: [told]}
collectors: {use: [tensor_ops], tensor_ops: {time_resolution: step}}
telemetry: {baseline_secs: 0.2, sensor_interval_ms: 10, invalidate_on_throttle: false, measure_slowdown: true}
labeller: {rules_file: other_rules.yaml}
analyser: {metrics: [retention], definitions: mrm-trace, bins: 7}
output: {figures: none}
";

const OTHER_PROMPTS: &str = "\
- {id: first, category: told, text: Once upon a time}
- {id: second, category: untold, text: Never}
";

const OTHER_RULES: &str = "\
version: 1
rules:
  - {symbol: '^ROPE$', region: runtime, applies_to: all}
";

/// What the checks look at.
pub struct Bench {
    pub lab: Lab,
    pub smallest: Outcome,
    pub other: Outcome,
    /// llama-server, if it is in the cache.
    pub program: Option<PathBuf>,
    /// The same at work on the model of the smallest experiment.
    pub server: Option<RunningServer>,
    /// A publisher of KV events, if there is one in the cache.
    pub publisher: Option<Publisher>,
}

impl Bench {
    fn new() -> Self {
        let lab = Lab::new();
        lab.write("other_prompts.yaml", OTHER_PROMPTS);
        lab.write("other_rules.yaml", OTHER_RULES);
        let smallest = lab.run_text("smallest", SMALLEST);
        let other = lab.run_text("other", OTHER);
        let program = llama_server("every_key_changes_what_happens");
        let server = program.as_ref().map(|program| RunningServer::start(program, &lab.path().join("tiny-a.gguf")));
        let publisher = Publisher::start("every_key_changes_what_happens");
        Self { lab, smallest, other, program, server, publisher }
    }

    /// A repetition of the other experiment.
    pub fn other_run(&self) -> Run {
        let is_repetition = |(name, _): &(String, Run)| name.ends_with("rep1");
        self.other.runs().into_iter().find(is_repetition).unwrap().1
    }

    /// [`SMALLEST`] with more keys, run.
    pub fn smallest_with(&self, name: &str, more: &str) -> Outcome {
        self.lab.run_text(name, &format!("{SMALLEST}{more}\n"))
    }

    /// What `dwell validate` says of [`SMALLEST`] with this for its model; it must refuse.
    pub fn refusal_of_model(&self, model: &str) -> String {
        let (before, after) = SMALLEST.split_once("  - {id: tiny-a, path: tiny-a.gguf}").unwrap();
        self.lab.write("refused.yaml", &format!("{before}  - {{{model}}}{after}"));
        let output = self.lab.output(&["validate", "--config", "refused.yaml"]);
        assert!(!output.status.success(), "{model}: {}", text_of(&output));
        text_of(&output)
    }

    /// The same where it must agree.
    pub fn assert_model_fits(&self, model: &str) {
        let (before, after) = SMALLEST.split_once("  - {id: tiny-a, path: tiny-a.gguf}").unwrap();
        self.lab.write("fits.yaml", &format!("{before}  - {{{model}}}{after}"));
        let output = self.lab.output(&["validate", "--config", "fits.yaml"]);
        assert!(output.status.success(), "{model}: {}", text_of(&output));
    }

    /// The metadata of a dataset made of the other experiment.
    pub fn zenodo(&self) -> Value {
        let dataset = self.lab.path().join("dataset");
        if !dataset.exists() {
            let output = self.lab.output(&["export", "results-other", "--format", "zenodo", "--all", "-o", "dataset"]);
            assert!(output.status.success(), "{}", text_of(&output));
        }
        let text = fs::read(dataset.join(".zenodo.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

type Check = fn(&Bench);

const CHECKS: &[(&str, Check)] = &[
    ("experiment.name", effect::name),
    ("experiment.description", effect::description),
    ("experiment.version", effect::version),
    ("experiment.authors", effect::authors),
    ("experiment.institution", effect::institution),
    ("experiment.paper_ref", effect::paper_ref),
    ("experiment.licence", effect::licence),
    ("models[].id", effect::model_id),
    ("models[].engine", effect::engine),
    ("models[].path", effect::model_path),
    ("models[].name", effect::model_name),
    ("models[].family", effect::family),
    ("models[].params", effect::params),
    ("models[].quantisation", effect::quantisation),
    ("models[].dtype", effect::dtype),
    ("models[].server.url", server::url),
    ("models[].server.program", server::program),
    ("models[].server.arguments", server::arguments),
    ("models[].server.pid", server::pid),
    ("models[].server.model_name", server::model_name),
    ("models[].server.device", server::device),
    ("models[].server.api", server::api),
    ("models[].server.api_key_variable", server::api_key_variable),
    ("models[].server.ready_within_s", server::ready_within),
    ("models[].server.kv_bytes_per_token", server::kv_bytes_per_token),
    ("models[].server.kv_events.endpoint", server::kv_events_endpoint),
    ("models[].server.kv_events.replay_endpoint", server::kv_events_others),
    ("models[].server.kv_events.topic", server::kv_events_others),
    ("models[].server.kv_events.keeps_token_ids", server::kv_events_others),
    ("sweep.context_lengths", effect::context_lengths),
    ("sweep.batch_sizes", effect::batch_sizes),
    ("sweep.output_tokens", effect::output_tokens),
    ("sweep.kv_cache_types", effect::kv_cache_types),
    ("sweep.flash_attention", effect::flash_attention),
    ("sweep.threads", effect::threads),
    ("sweep.starts", server::starts),
    ("sweep.repetitions", effect::repetitions),
    ("sweep.warmup_runs", effect::warmup_runs),
    ("prompts.source", effect::prompt_source),
    ("prompts.categories", effect::categories),
    ("collectors.use", effect::collectors_used),
    ("collectors.fallback", effect::fallback),
    ("collectors.tensor_ops.time_resolution", effect::time_resolution),
    ("collectors.process.sample_interval_ms", effect::sample_interval),
    ("telemetry.baseline_secs", effect::baseline_secs),
    ("telemetry.sensor_interval_ms", effect::sensor_interval),
    ("telemetry.invalidate_on_throttle", effect::invalidate_on_throttle),
    ("telemetry.measure_slowdown", effect::measure_slowdown),
    ("labeller.rules_file", effect::rules_file),
    ("labeller.unknown_policy", effect::unknown_policy),
    ("analyser.metrics", effect::metrics),
    ("analyser.definitions", effect::definitions),
    ("analyser.thresholds.high_write_once", effect::high_write_once),
    ("analyser.thresholds.high_retention_s", effect::high_retention),
    ("analyser.thresholds.medium_write_once", effect::medium_write_once),
    ("analyser.thresholds.medium_retention_s", effect::medium_retention),
    ("analyser.thresholds.at_tokens_per_sec", effect::at_tokens_per_sec),
    ("analyser.bins", effect::bins),
    ("output.base_dir", effect::base_dir),
    ("output.compression", effect::compression),
    ("output.figures", effect::figures),
];

#[test]
fn every_key_changes_what_happens() {
    let checked: BTreeSet<&str> = CHECKS.iter().map(|(key, _)| *key).collect();
    let keys: BTreeSet<&str> = dwell_config::keys().iter().map(|key| key.path).collect();
    assert_eq!(checked, keys);
    let bench = Bench::new();
    for (key, check) in CHECKS {
        println!("{key}");
        check(&bench);
    }
}
