//! Experiment files that are wrong, or of another tool.

use crate::common::text_of;
use crate::lab::{Lab, SMALLEST};

#[test]
fn an_unknown_key_is_told_with_file_line_and_nearest_key() {
    let lab = Lab::new();
    lab.write("wrong.yaml", &SMALLEST.replace("context_lengths", "contxt_lengths"));
    for (command, code) in [("validate", 1), ("plan", 2), ("run", 2)] {
        let output = lab.output(&[command, "--config", "wrong.yaml"]);
        assert_eq!(output.status.code(), Some(code), "{}", text_of(&output));
        let said = text_of(&output);
        assert!(said.contains("wrong.yaml:4:") && said.contains("did you mean `context_lengths`"), "{said}");
    }
    assert!(!lab.results().exists());
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_told() {
    let lab = Lab::new();
    let output = lab.output(&["validate", "--config", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("nowhere.yaml"));
    std::fs::write(lab.path().join("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    let output = lab.output(&["validate", "--config", "binary.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("UTF-8"), "{}", text_of(&output));
}

#[test]
fn a_model_that_is_missing_or_too_large_is_found_before_anything_runs() {
    let lab = Lab::new();
    lab.write("missing.yaml", &SMALLEST.replace("path: tiny-a.gguf", "path: nowhere.gguf"));
    let output = lab.output(&["validate", "--config", "missing.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("nowhere.gguf"), "{}", text_of(&output));
    // 2³⁰ cells of this model take 256 GiB.
    lab.write("large.yaml", &SMALLEST.replace("[256]", "[1073741824]"));
    let output = lab.output(&["validate", "--config", "large.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("of memory are needed"), "{}", text_of(&output));
    let output = lab.output(&["run", "--config", "large.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!lab.results().exists());
}

#[test]
fn a_disk_that_is_too_small_for_the_estimate_is_told() {
    let name = "a_disk_that_is_too_small_for_the_estimate_is_told";
    let lab = Lab::new();
    let disk = tempfile::tempdir().unwrap();
    let mut mount = std::process::Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", "size=20m", "tmpfs"]).arg(disk.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return crate::common::skip(name, "mounting is not permitted");
    }
    lab.write("many.yaml", &SMALLEST.replace("[2]", "[2], repetitions: 900"));
    let output = lab.command(&["validate", "--config", "many.yaml", "-o"]).arg(disk.path()).output().unwrap();
    let _ = std::process::Command::new("umount").arg("--lazy").arg(disk.path()).status();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("the experiment writes about"), "{}", text_of(&output));
}

#[test]
fn a_manifest_of_something_else_is_found_before_anything_runs() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALLEST);
    std::fs::create_dir(lab.results()).unwrap();
    let foreign = "name,price\napple,3\n";
    std::fs::write(lab.results().join("manifest.csv"), foreign).unwrap();
    let output = lab.output(&["run", "--config", "small.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("manifest.csv"), "{}", text_of(&output));
    assert_eq!(std::fs::read_to_string(lab.results().join("manifest.csv")).unwrap(), foreign);
    assert_eq!(std::fs::read_dir(lab.results()).unwrap().count(), 1);
}

#[test]
fn the_shipped_files_are_valid() {
    let lab = Lab::new();
    let output = lab.output(&["validate", "--config", "tiny_experiment.yaml"]);
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(text_of(&output).contains("valid: 24 runs of 2 models, watched with tensor_ops and process"));
    for (file, runs) in [("default_experiment.yaml", "5"), ("kv_cache_study.yaml", "48")] {
        if crate::common::cached("models/SmolLM2-135M-Instruct.Q4_1.gguf").is_none() {
            crate::common::skip("the_shipped_files_are_valid", "the default model is not in the cache");
            return;
        }
        let output = lab.output(&["validate", "--config", file]);
        assert!(output.status.success(), "{}", text_of(&output));
        assert!(text_of(&output).contains(&format!("valid: {runs} runs of 1 model,")), "{}", text_of(&output));
    }
}

#[test]
fn a_file_of_mrm_trace_runs_with_notes_of_what_was_translated() {
    let lab = Lab::new();
    let text = "\
experiment: {name: old, date_created: '2026-01-01'}
models:
  - {id: tiny-a, engine: llamacpp, path: tiny-a.gguf, dtype: float16}
sweep: {context_lengths: [256], batch_sizes: [1], output_tokens: [2], repetitions: 1, warmup_runs: 1}
prompts: {source: tiny_prompts.yaml, categories: [short]}
collector:
  primary: perf_mem
  fallback: memray
  fallback_2: process_monitor
  perf_mem: {sample_period: 4000, ldlat_threshold: 20}
  process_monitor: {poll_interval_ms: 50}
labeller: {unknown_policy: log_and_skip}
analyser: {metrics: [retention_duration, write_once_ratio], histogram_bins: 20}
output: {base_dir: results/, compression: snappy}
";
    lab.write("old.yaml", text);
    let output = lab.output(&["run", "--config", "old.yaml"]);
    crate::lab::assert_done(&output);
    let said = text_of(&output);
    for note in ["perf_mem", "sample_period", "histogram_bins", "log_and_skip"] {
        assert!(said.contains(note), "nothing about {note}: {said}");
    }
    let row = &lab.rows()[0];
    let run = crate::common::Run { dir: lab.results().join(&row.path) };
    let metadata = run.metadata();
    assert_eq!(metadata["build"]["compression"], "snappy");
    assert_eq!(metadata["build"]["bins"], 20);
    assert_eq!(metadata["build"]["unknown_policy"], "skip");
    assert_eq!(metadata["collectors"]["used"], serde_json::json!(["tensor_ops", "process"]));
}
