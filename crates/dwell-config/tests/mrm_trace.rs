//! Files written for mrm-trace 0.1.x.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{LEAST, parsed, refused};
use dwell_config::Dtype;
use dwell_events::CollectorName;
use dwell_events::Hint;
use dwell_events::engine::EngineKind;
use dwell_events::{Metric, UnknownPolicy};

/// Every key that mrm-trace has, with values whose meaning is clear.
const WHOLE: &str = "\
experiment:
  name: study
  description: d
  date_created: '2026-01-01'
  institution: i
  paper_ref: p
  version: 1.0.0
  authors: [A]
models:
  - id: llama
    engine: llamacpp
    path: llama.gguf
    hf_repo: null
    family: LLaMA
    params_billions: 1.5
    quantisation: Q4_K_M
    dtype: float16
  - {id: plain, engine: llamacpp, path: plain.gguf, quantisation: F16}
sweep:
  context_lengths: [512, 1024]
  batch_sizes: [1]
  output_tokens: [32]
  repetitions: 3
  warmup_runs: 1
collector:
  primary: perf_mem
  fallback: memray
  fallback_2: process_monitor
  perf_mem:
    sample_period: 4000
    ldlat_threshold: 20
    events: [cpu/mem-loads/P]
    extra_flags: []
    require_root: true
  memray: {native_traces: true, follow_fork: true, file_size_limit_gb: 20}
  process_monitor: {poll_interval_ms: 50, metrics: [rss]}
telemetry:
  capture: true
  software_versions: true
  hardware_topology: true
  thermal_sampling_interval_s: 5
  thermal_source: auto
  invalidate_on_throttle: false
  run_fio_benchmark: false
labeller:
  rules_file: config/models.yaml
  unknown_policy: log_and_skip
  min_sample_count: 10
analyser:
  metrics: [retention_duration, write_once_ratio, read_frequency, working_set_size, access_locality, inter_access_interval]
  histogram_bins: 100
  cdf_resolution: 1000
  group_by: [region_type]
output:
  base_dir: results/
  formats: {raw_traces: parquet, metrics: csv, figures: pdf, metadata: json}
  compression: snappy
  hf_dataset_push: false
  hf_repo: null
";

#[test]
fn a_whole_file_is_translated() {
    let parsed = parsed(WHOLE);
    let all = &parsed.experiment;
    let [llama, plain] = &all.models[..] else { panic!("{:?}", all.models) };
    assert_eq!((llama.engine, llama.params, &llama.family), (EngineKind::LlamaCpp, Some(1_500_000_000), &None));
    assert_eq!((llama.quantisation.as_deref(), llama.dtype), (Some("q4_k"), None));
    assert_eq!((&plain.quantisation, plain.dtype), (&None, Some(Dtype::F16)));
    assert_eq!((all.sweep.repetitions, all.sweep.warmup_runs), (3, 1));
    assert_eq!(all.collectors.used, [CollectorName::TENSOR_OPS, CollectorName::PROCESS]);
    assert_eq!(all.collectors.fallback, [CollectorName::PROCESS]);
    assert_eq!(all.collectors.process.sample_interval_ms, 50);
    assert_eq!((all.telemetry.sensor_interval_ms, all.telemetry.invalidate_on_throttle), (5000, false));
    assert_eq!((all.labeller.unknown_policy, &all.labeller.rules_file), (UnknownPolicy::Skip, &None));
    assert_eq!(all.analyser.metrics, Metric::ALL[..6]);
    assert_eq!(all.analyser.bins, 100);
    assert_eq!(all.output.base_dir.to_str(), Some("results/"));
}

/// Keys of mrm-trace that mean the same in dwell and need no note, and those that are not given.
const UNCHANGED: &[&str] = &[
    "name",
    "description",
    "institution",
    "paper_ref",
    "version",
    "authors",
    "id",
    "path",
    "hf_repo",
    "context_lengths",
    "batch_sizes",
    "output_tokens",
    "repetitions",
    "warmup_runs",
    "invalidate_on_throttle",
    "base_dir",
    "compression",
];

#[test]
fn everything_that_changed_or_has_no_effect_is_noted_with_its_line() {
    let notes = parsed(WHOLE).notes;
    let has_key = |line: &str| line.trim_start_matches(['-', ' ', '{']).contains(':');
    let is_group = |line: &str| line.ends_with(':');
    for (index, line) in WHOLE.lines().enumerate().filter(|(_, line)| has_key(line) && !is_group(line)) {
        let key = line.trim_start_matches(['-', ' ', '{']).split(':').next().unwrap();
        let is_noted = notes.iter().any(|note| note.line == index as u64 + 1);
        assert_eq!(is_noted, !UNCHANGED.contains(&key) || line.contains("llamacpp"), "line {}: {line}", index + 1);
    }
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert!(
        texts.contains(&"line 26: collector.primary: perf_mem became collectors.use [tensor_ops, process]".to_owned()),
        "{texts:#?}"
    );
    let period = "line 30: collector.perf_mem.sample_period: has no effect: every access is seen, there are no samples";
    assert!(texts.contains(&period.to_owned()), "{texts:#?}");
}

#[test]
fn the_least_file_of_mrm_trace_is_accepted() {
    let parsed = parsed("experiment: {name: x}\nmodels: [{id: a, engine: llamacpp, path: a.gguf}]\n");
    assert_eq!(parsed.experiment.models[0].engine, EngineKind::LlamaCpp);
    assert_eq!(parsed.experiment.collectors.used, [CollectorName::TENSOR_OPS, CollectorName::PROCESS]);
    assert_eq!(parsed.notes.len(), 2);
}

#[test]
fn a_file_of_dwell_has_no_notes() {
    assert_eq!(parsed(LEAST).notes, []);
}

#[test]
fn a_file_with_keys_of_both_is_one_of_dwell() {
    let problems =
        refused(&format!("{LEAST}collector: {{primary: perf_mem}}\nsweep: {{kv_cache_types: [f16]}}\n")).problems;
    assert_eq!((problems.len(), problems[0].key.as_str()), (1, "collector"));
    assert_eq!(problems[0].nearest.as_deref(), Some("collectors"));
    let engine = refused("experiment: {name: x}\nmodels: [{id: a, engine: llamacpp, name: smollm2}]\n").problems;
    assert_eq!(engine[0].nearest.as_deref(), Some("llama_cpp"));
}

#[test]
fn what_is_unclear_or_impossible_is_an_error() {
    let change = |old: &str, new: &str| {
        assert!(WHOLE.contains(old), "{old}");
        refused(&WHOLE.replacen(old, new, 1))
    };
    for (old, new, key) in [
        ("primary: perf_mem", "primary: memray", "collector.primary"),
        ("primary: perf_mem", "primary: perf", "collector.primary"),
        ("primary: perf_mem", "primry: perf_mem", "collector.primry"),
        ("sample_period: 4000", "sample_perod: 4000", "collector.perf_mem.sample_perod"),
        ("hf_repo: null\n    family", "hf_repo: meta/llama\n    family", "models[0].hf_repo"),
        ("engine: llamacpp\n", "engine: vllm\n", "models[0].engine"),
        ("params_billions: 1.5", "params_billions: many", "models[0].params_billions"),
        ("quantisation: Q4_K_M", "quantisation: AWQ", "models[0].quantisation"),
        ("unknown_policy: log_and_skip", "unknown_policy: assign_runtime", "labeller.unknown_policy"),
        ("unknown_policy: log_and_skip", "unknown_policy: ignore", "labeller.unknown_policy"),
        ("capture: true", "capture: false", "telemetry.capture"),
        ("run_fio_benchmark: false", "run_fio_benchmark: true", "telemetry.run_fio_benchmark"),
        ("raw_traces: parquet", "raw_traces: hdf5", "output.formats.raw_traces"),
        ("hf_dataset_push: false", "hf_dataset_push: true", "output.hf_dataset_push"),
        ("poll_interval_ms: 50", "poll_interval_ms: -1", "collectors.process.sample_interval_ms"),
        ("sweep:", "sweeps:", "sweeps"),
    ] {
        let error = change(old, new);
        let keys: Vec<&str> = error.problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, [key], "{error}");
    }
    let hints = change("unknown_policy: log_and_skip", "unknown_policy: assign_runtime").hints();
    assert_eq!(hints, ["write a last rule that matches everything and says `runtime` into a rules file"]);
}
