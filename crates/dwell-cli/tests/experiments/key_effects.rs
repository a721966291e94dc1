//! What each key does, in the order of the keys.

use std::collections::BTreeSet;
use std::fs;

use crate::collectors;
use crate::common::{Run, text_of};
use crate::keys::Bench;
use crate::lab::Outcome;
use crate::served;

pub fn name(bench: &Bench) {
    assert_eq!(bench.smallest.run().metadata()["experiment"]["name"], "small");
    assert_eq!(bench.other_run().metadata()["experiment"]["name"], "other");
}

pub fn description(bench: &Bench) {
    assert_eq!(bench.other_run().metadata()["experiment"]["description"], "About bytes");
    assert!(bench.zenodo()["description"].as_str().unwrap().contains("About bytes"));
}

pub fn version(bench: &Bench) {
    assert_eq!(bench.zenodo()["version"], "2.5.0");
    assert_eq!(bench.smallest.run().metadata()["experiment"]["version"], "1.0.0");
}

pub fn authors(bench: &Bench) {
    assert_eq!(bench.zenodo()["creators"][0]["name"], "Ada Lovelace");
}

pub fn institution(bench: &Bench) {
    assert_eq!(bench.zenodo()["creators"][0]["affiliation"], "Analytical Society");
}

pub fn paper_ref(bench: &Bench) {
    assert!(bench.zenodo()["related_identifiers"].to_string().contains("10.1000/182"));
}

pub fn licence(bench: &Bench) {
    assert!(bench.zenodo()["license"].as_str().unwrap().eq_ignore_ascii_case("cc-by-4.0"));
    let output = bench.lab.output(&["export", "results-smallest", "--format", "zenodo", "--all", "-o", "unlicensed"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("--licence"), "{}", text_of(&output));
}

pub fn model_id(bench: &Bench) {
    assert!(bench.other.results.join("model-b").is_dir());
    assert!(bench.smallest.results.join("tiny-a").is_dir());
}

pub fn engine(bench: &Bench) {
    let said = bench.refusal_of_model("id: tiny-a, path: tiny-a.gguf, engine: llama_cp");
    assert!(said.contains("models[0].engine") && said.contains("`llama_cpp`"), "{said}");
    assert_eq!(bench.smallest.run().metadata()["engine"], "llama_cpp");
    let Some(program) = &bench.program else { return };
    let served = format!("path: tiny-a.gguf, engine: llama_server, server: {{program: {program:?}}}");
    assert_eq!(served::run(&bench.lab, "engine", &served).run().metadata()["engine"], "llama_server");
}

pub fn model_path(bench: &Bench) {
    let model = |run: Run| run.metadata()["options"]["model"].as_str().unwrap().to_owned();
    assert!(model(bench.smallest.run()).ends_with("tiny-a.gguf"));
    assert!(model(bench.other_run()).ends_with("tiny-b.gguf"));
}

pub fn model_name(bench: &Bench) {
    let said = bench.refusal_of_model("id: tiny-a, name: no-such-model");
    assert!(said.contains("no model is called \"no-such-model\"") && said.contains("smollm2"), "{said}");
}

pub fn family(bench: &Bench) {
    bench.assert_model_fits("id: tiny-a, path: tiny-a.gguf, family: llama");
    let said = bench.refusal_of_model("id: tiny-a, path: tiny-a.gguf, family: qwen3");
    assert!(said.contains("family is \"qwen3\"") && said.contains("\"llama\""), "{said}");
}

pub fn params(bench: &Bench) {
    let info = bench.lab.output(&["model", "info", "tiny-a.gguf", "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let parameters = info["parameters"].as_u64().unwrap();
    let config = |parameters: u64| format!("id: tiny-a, path: tiny-a.gguf, params: {parameters}");
    bench.assert_model_fits(&config(parameters * 104 / 100));
    let said = bench.refusal_of_model(&config(parameters * 106 / 100));
    assert!(said.contains("params") && said.contains(&parameters.to_string()), "{said}");
}

pub fn quantisation(bench: &Bench) {
    let said = bench.refusal_of_model("id: tiny-a, path: tiny-a.gguf, quantisation: q4_1");
    assert!(said.contains("quantisation is \"q4_1\"") && said.contains("\"f16\""), "{said}");
}

pub fn dtype(bench: &Bench) {
    bench.assert_model_fits("id: tiny-a, path: tiny-a.gguf, dtype: f16");
    let said = bench.refusal_of_model("id: tiny-a, path: tiny-a.gguf, dtype: f32");
    assert!(said.contains("dtype is \"f32\"") && said.contains("\"f16\""), "{said}");
}

pub fn context_lengths(bench: &Bench) {
    let lengths: BTreeSet<_> = bench.other.rows().iter().map(|row| row.context_length.unwrap()).collect();
    assert_eq!(lengths, BTreeSet::from([512, 768]));
    let lengths: BTreeSet<u64> =
        bench.other.runs().values().map(|run| run.metadata()["options"]["context_length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, BTreeSet::from([512, 768]));
}

pub fn batch_sizes(bench: &Bench) {
    let sequences = |run: Run| {
        let blocks = run.blocks();
        blocks.iter().filter_map(|block| block.sequence).collect::<BTreeSet<i32>>()
    };
    assert_eq!(sequences(bench.smallest.run()), BTreeSet::from([0]));
    assert_eq!(sequences(bench.other_run()), BTreeSet::from([0, 1]));
}

pub fn output_tokens(bench: &Bench) {
    let tokens = |run: Run| run.metadata()["generation"]["generated_tokens"].as_u64().unwrap();
    assert_eq!(tokens(bench.smallest.run()), 2);
    // Two sequences of three.
    assert_eq!(tokens(bench.other_run()), 6);
}

pub fn kv_cache_types(bench: &Bench) {
    let bytes = |run: Run| run.blocks()[0].bytes;
    // One head of 32 values, of keys or of values: 32 × 2 bytes, and one block of 34.
    assert_eq!(bytes(bench.smallest.run()), 64);
    assert_eq!(bytes(bench.other_run()), 34);
}

pub fn flash_attention(bench: &Bench) {
    let off = bench
        .lab
        .run_text("unfused", &crate::lab::SMALLEST.replace("threads: [1]", "threads: [1], flash_attention: [false]"));
    let is_fused = |run: Run| run.accesses().iter().any(|access| access.op == "FLASH_ATTN_EXT");
    assert!(is_fused(bench.smallest.run()));
    assert!(!is_fused(off.run()));
}

pub fn threads(bench: &Bench) {
    let threads = |run: Run| run.metadata()["model"]["threads"].as_u64().unwrap();
    assert_eq!(threads(bench.smallest.run()), 1);
    assert_eq!(threads(bench.other_run()), 2);
}

fn runs_of_kind(outcome: &Outcome, kind: &str) -> usize {
    outcome.rows().iter().filter(|row| row.kind == kind).count()
}

pub fn repetitions(bench: &Bench) {
    assert_eq!(runs_of_kind(&bench.smallest, "repetition"), 1);
    assert_eq!(runs_of_kind(&bench.other, "repetition"), 4);
}

pub fn warmup_runs(bench: &Bench) {
    assert_eq!(runs_of_kind(&bench.smallest, "warmup"), 0);
    assert_eq!(runs_of_kind(&bench.other, "warmup"), 2);
    let exclusions = bench.other.summary["exclusions"].as_str().unwrap();
    assert!(exclusions.contains("2 warm-up"), "{exclusions}");
}

pub fn prompt_source(bench: &Bench) {
    assert!(bench.smallest.run().metadata()["actions"].to_string().contains("Good morning."));
    assert!(bench.other_run().metadata()["actions"].to_string().contains("Once upon a time"));
}

pub fn categories(bench: &Bench) {
    // The prompt files have others too.
    assert!(!bench.smallest.run().metadata()["actions"].to_string().contains("raining"));
    assert!(!bench.other_run().metadata()["actions"].to_string().contains("Never"));
}

pub fn collectors_used(bench: &Bench) {
    let (smallest, other) = (bench.smallest.run().metadata(), bench.other_run().metadata());
    assert_eq!(smallest["collectors"]["used"], serde_json::json!(["tensor_ops", "process"]));
    assert_eq!(other["collectors"]["used"], serde_json::json!(["tensor_ops"]));
    assert!(smallest["tables"]["memory"]["rows"].as_u64().unwrap() > 0);
    assert_eq!(other["tables"]["memory"]["rows"], 0);
}

pub fn fallback(bench: &Bench) {
    collectors::assert_a_fallback_is_used(&bench.lab);
    collectors::assert_refused_without_a_fallback(&bench.lab);
}

pub fn time_resolution(bench: &Bench) {
    assert_eq!(bench.smallest.run().metadata()["time_resolution"], "op");
    assert_eq!(bench.other_run().metadata()["time_resolution"], "step");
}

pub fn sample_interval(bench: &Bench) {
    let often = bench.smallest_with("often", "collectors: {process: {sample_interval_ms: 1}}");
    let rows = |run: Run| run.metadata()["tables"]["memory"]["rows"].as_u64().unwrap();
    assert!(rows(often.run()) > 2 * rows(bench.smallest.run()));
}

pub fn baseline_secs(bench: &Bench) {
    let duration_s = |run: Run| run.metadata()["telemetry"]["baseline"]["duration_s"].as_f64().unwrap();
    let intervals = |run: Run| run.metadata()["telemetry"]["baseline"]["intervals"].as_u64().unwrap();
    assert!(duration_s(bench.smallest.run()) >= 0.1 && duration_s(bench.other_run()) >= 0.2);
    // It is looked at every tenth of a second.
    assert_eq!(intervals(bench.smallest.run()), 1);
}

pub fn sensor_interval(bench: &Bench) {
    let samples = |run: Run| run.metadata()["telemetry"]["sensors"]["samples"].as_u64().unwrap();
    assert!(samples(bench.other_run()) > samples(bench.smallest.run()));
}

pub fn invalidate_on_throttle(bench: &Bench) {
    let (smallest, other) = (bench.smallest.run().metadata(), bench.other_run().metadata());
    assert_eq!(other["validity"]["ignored"], serde_json::json!(["throttle_events"]));
    assert!(!other["validity"]["reasons"].to_string().contains("throttle"));
    assert!(smallest["validity"].get("ignored").is_none());
}

pub fn measure_slowdown(bench: &Bench) {
    assert_eq!(runs_of_kind(&bench.smallest, "untraced"), 0);
    assert_eq!(runs_of_kind(&bench.other, "untraced"), 2);
    assert!(bench.smallest.run().metadata()["observer_effect"]["slowdown"].is_null());
    assert!(bench.other_run().metadata()["observer_effect"]["slowdown"]["decode_speed_share"].is_f64());
}

pub fn rules_file(bench: &Bench) {
    let regions_of_rope = |run: Run| {
        let accesses = run.accesses();
        let regions = accesses.iter().filter(|access| access.op == "ROPE").map(|access| access.region_type.clone());
        regions.collect::<BTreeSet<String>>()
    };
    assert!(!regions_of_rope(bench.smallest.run()).contains("runtime"));
    assert_eq!(regions_of_rope(bench.other_run()), BTreeSet::from(["runtime".to_owned()]));
}

pub fn unknown_policy(bench: &Bench) {
    // A rule that takes all labels away.
    bench.lab.write("no_labels.yaml", "version: 1\nrules: [{symbol: '', region: unknown, applies_to: all}]\n");
    let with = |policy: &str| format!("labeller: {{rules_file: no_labels.yaml, unknown_policy: {policy}}}");
    let seen = bench.smallest.run().accesses().len() as u64;
    let kept = bench.smallest_with("kept", &with("keep")).run();
    assert_eq!(kept.accesses().len() as u64, seen);
    assert!(kept.accesses().iter().all(|access| access.region_type == "unknown"));
    let skipped = bench.smallest_with("skipped", &with("skip")).run();
    assert!(skipped.accesses().is_empty());
    assert!(skipped.losses().contains(&("unlabelled_accesses".to_owned(), seen)), "{:?}", skipped.losses());
    bench.lab.write("strict.yaml", &format!("{}{}\n", crate::lab::SMALLEST, with("error")));
    let output = bench.lab.output(&["run", "--config", "strict.yaml", "-o", "results-strict"]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("labelling failed"), "{}", text_of(&output));
}

fn header_of_metrics(run: &Run) -> String {
    let text = fs::read_to_string(run.dir.join("metrics.csv")).unwrap();
    text.lines().next().unwrap().to_owned()
}

pub fn metrics(bench: &Bench) {
    let (all, some) = (header_of_metrics(&bench.smallest.run()), header_of_metrics(&bench.other_run()));
    assert!(all.contains("retention_p99_s") && all.contains("write_once_ratio_mean"));
    assert!(some.contains("retention_p99_s") && !some.contains("write_once_ratio_mean"), "{some}");
}

pub fn definitions(bench: &Bench) {
    let of_region = |run: Run| fs::read_to_string(run.dir.join("metrics_by_region.csv")).unwrap();
    let of_mrm_trace = bench.smallest_with("mrm", "analyser: {definitions: mrm-trace}");
    let bytes_read = |text: String| {
        let column = text.lines().next().unwrap().split(',').position(|name| name == "bytes_read").unwrap();
        text.lines().nth(1).unwrap().split(',').nth(column).unwrap().to_owned()
    };
    // mrm-trace counts rows, not bytes.
    assert_ne!(bytes_read(of_region(bench.smallest.run())), "");
    assert_eq!(bytes_read(of_region(of_mrm_trace.run())), "");
}

/// The class of a region type with these thresholds.
fn class_with(bench: &Bench, name: &str, thresholds: &str, region: &str) -> String {
    let outcome = bench.smallest_with(name, &format!("analyser: {{thresholds: {{{thresholds}}}}}"));
    class_of(&outcome.run(), region)
}

fn class_of(run: &Run, region: &str) -> String {
    let text = fs::read_to_string(run.dir.join("metrics.csv")).unwrap();
    let column = text.lines().next().unwrap().split(',').position(|name| name == "suitability").unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{region},"))).unwrap();
    line.split(',').nth(column).unwrap().to_owned()
}

/// The class of the KV cache by the definitions of mrm-trace, which look at the write-once ratio alone where no retention is
/// asked for. Half of the addresses that are stored to are: the prompt's cells were cleared before.
fn class_by_write_once(bench: &Bench, name: &str, thresholds: &str) -> String {
    let thresholds = format!("high_retention_s: 0, medium_retention_s: 0{thresholds}");
    let analyser = format!("analyser: {{definitions: mrm-trace, thresholds: {{{thresholds}}}}}");
    class_of(&bench.smallest_with(name, &analyser).run(), "kv_cache")
}

pub fn high_write_once(bench: &Bench) {
    assert_eq!(class_by_write_once(bench, "high-a", ""), "medium_mrm");
    assert_eq!(class_by_write_once(bench, "high-b", ", high_write_once: 0.5"), "high_mrm");
}

pub fn high_retention(bench: &Bench) {
    // It lives longer than so short a run, which does not tell how long.
    assert_eq!(class_of(&bench.smallest.run(), "kv_cache"), "not_rated");
    assert_eq!(class_with(bench, "high-c", "high_retention_s: 0, medium_retention_s: 0", "kv_cache"), "high_mrm");
}

pub fn medium_write_once(bench: &Bench) {
    assert_eq!(class_by_write_once(bench, "medium-a", ""), "medium_mrm");
    assert_eq!(class_by_write_once(bench, "medium-b", ", medium_write_once: 0.6"), "low_mrm");
}

pub fn medium_retention(bench: &Bench) {
    assert_eq!(class_of(&bench.smallest.run(), "activation"), "low_mrm");
    assert_eq!(class_with(bench, "medium-c", "medium_retention_s: 0", "activation"), "medium_mrm");
}

pub fn at_tokens_per_sec(bench: &Bench) {
    // A single step takes a quarter of an hour.
    assert_eq!(class_with(bench, "pace-a", "at_tokens_per_sec: 0.001", "kv_cache"), "high_mrm");
}

pub fn bins(bench: &Bench) {
    let rows = |run: Run| {
        let text = fs::read_to_string(run.dir.join("retention_histogram.csv")).unwrap();
        text.lines().filter(|line| line.starts_with("weight,")).count()
    };
    // Lives that end where they begin have a bin of their own.
    assert_eq!(rows(bench.smallest.run()), 1 + 60);
    assert_eq!(rows(bench.other_run()), 1 + 7);
}

pub fn base_dir(bench: &Bench) {
    bench.lab.write("placed.yaml", &format!("{}output: {{base_dir: some/where}}\n", crate::lab::SMALLEST));
    bench.lab.run("placed.yaml");
    assert!(bench.lab.path().join("some/where/manifest.csv").is_file());
}

pub fn compression(bench: &Bench) {
    let size = |run: Run| fs::metadata(run.dir.join("trace.parquet")).unwrap().len();
    let sizes: Vec<u64> = ["zstd", "snappy", "gzip", "none"]
        .map(|codec| size(bench.smallest_with(codec, &format!("output: {{compression: {codec}}}")).run()))
        .to_vec();
    assert_eq!(sizes.iter().collect::<BTreeSet<_>>().len(), 4, "{sizes:?}");
    assert!(sizes[..3].iter().all(|&size| size < sizes[3]), "{sizes:?}");
}

pub fn figures(bench: &Bench) {
    assert!(bench.smallest.run().dir.join("figures/survival.svg").is_file());
    assert!(bench.smallest.experiment_dir().join("figures").is_dir());
    assert!(!bench.other_run().dir.join("figures").exists());
    assert!(!bench.other.experiment_dir().join("figures").exists());
}
