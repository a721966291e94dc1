//! `dwell compare` on runs of a model whose KV cache is arithmetic, and on what is no run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Workplace, dwell, text_of};
use dwell_gguf::MakeSpec;
use serde_json::Value;

/// 8 layers × 256 keys and 256 values × 2 bytes.
const KV_BYTES_PER_TOKEN: f64 = 8192.0;
const CONTEXTS: [u64; 2] = [2048, 8192];
const TOKENS: u64 = 300;

struct Lab {
    place: Workplace,
    results: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let place = Workplace::new();
        let results = place.path().join("results");
        Self { place, results }
    }

    fn model(&self) -> PathBuf {
        let spec =
            MakeSpec { layers: 8, embedding: 256, heads: 4, kv_heads: 4, feed_forward: 256, ..MakeSpec::default() };
        self.place.model(spec)
    }

    /// A run with samples as often as tokens come. Its graphs are small, so that little but the cache grows with the
    /// context.
    fn run(&self, model: &Path, run_id: &str, context_length: u64) -> PathBuf {
        let mut command = dwell();
        command.arg("run").arg("--model").arg(model).arg("--output").arg(&self.results);
        command.args(["--run-id", run_id, "--threads", "1", "--baseline-secs", "0", "--sample-interval-ms", "5"]);
        command.args(["--context-length", &context_length.to_string(), "--max-tokens", &TOKENS.to_string()]);
        command.args(["--prompt", "abc", "--ignore-end", "--chat-template", "off"]);
        command.args(["--batch-size", "8", "--micro-batch-size", "8"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        self.results.join(model.file_stem().unwrap()).join(run_id)
    }
}

fn compare(arguments: &[&Path], options: &[&str]) -> Output {
    dwell().arg("compare").args(arguments).args(options).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text_of(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_within(value: &Value, low: f64, high: f64) {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((low..=high).contains(&number), "{number} is not from {low} to {high}");
}

#[test]
fn two_context_lengths_of_the_embedded_engine_measure_the_cache_that_the_shape_says() {
    let lab = Lab::new();
    let model = lab.model();
    for context_length in CONTEXTS {
        for repetition in ["a", "b"] {
            lab.run(&model, &format!("{context_length}{repetition}"), context_length);
        }
    }
    let out = lab.place.path().join("comparison");
    let found = json_of(&compare(&[&lab.results], &["--json", "-o", out.to_str().unwrap()]));
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{found:#}");
    for (group, context_length) in groups.iter().zip(CONTEXTS) {
        let (key, figures) = (&group["key"], &group["figures"]);
        let steady_max = figures["steady_bytes"]["max"].as_f64().unwrap();
        assert_eq!((&key["engine"], &key["context_length"]), (&"llama_cpp".into(), &context_length.into()));
        assert_eq!(group["run_ids"].as_array().unwrap().len(), 2);
        // The cells that were written are traced, so what a token takes is exact.
        assert_eq!(figures["kv_theory_bytes_per_token"]["median"], KV_BYTES_PER_TOKEN);
        assert_eq!(figures["kv_measured_bytes_per_token"]["median"], KV_BYTES_PER_TOKEN);
        assert_eq!(figures["efficiency"]["median"], 1.0);
        assert_eq!(figures["kv_allocated_bytes"]["median"], KV_BYTES_PER_TOKEN * context_length as f64);
        // The beginning of the text, three bytes of prompt, and all chosen tokens but the last are in the cache.
        let used = (4 + TOKENS - 1) as f64 * KV_BYTES_PER_TOKEN;
        assert_eq!(figures["kv_used_bytes"]["median"], used);
        assert_eq!(group["verdicts"], serde_json::json!({"preallocated": 2}), "{group:#}");
        assert_eq!(
            (&figures["prompt_tokens"]["max"], &figures["generated_tokens"]["max"]),
            (&4.0.into(), &(TOKENS as f64).into())
        );
        // llama.cpp says what it allocates to compute in; what nobody reports is never fewer than no bytes.
        assert_within(&figures["steady_compute_bytes"]["median"], 1024.0, 64.0 * 1_048_576.0);
        assert_within(&figures["steady_unaccounted_bytes"]["min"], 0.0, steady_max);
        assert_within(&figures["load_s"]["median"], 1e-4, 60.0);
        assert_within(&figures["time_to_first_token_s"]["min"], 1e-6, 60.0);
        let (steady, peak) = (&figures["steady_bytes"]["median"], &figures["peak_bytes"]["median"]);
        assert_within(steady, KV_BYTES_PER_TOKEN * context_length as f64, peak.as_f64().unwrap());
    }
    // Attention masks grow with the context too: 8 positions of at most 8 bytes, padded to 64.
    let line = &found["context_lines"][0];
    assert_within(&line["bytes_per_token"], 0.98 * KV_BYTES_PER_TOKEN, KV_BYTES_PER_TOKEN + 1024.0);
    assert_eq!((&line["theory_bytes_per_token"], &line["memory"]), (&KV_BYTES_PER_TOKEN.into(), &"own".into()));

    let csv = fs::read_to_string(out.join("compare.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    for figure in ["compare", "curve", "growth", "speed"] {
        assert!(
            fs::read_to_string(out.join(format!("figures/{figure}.svg"))).unwrap().ends_with("</svg>\n"),
            "{figure}"
        );
        assert!(out.join(format!("figures/{figure}.csv")).is_file(), "{figure}");
    }

    let text = compare(&[&lab.results], &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for part in ["KV per token, theory", "8.00 KiB", "preallocated", "4 runs in 2 configurations"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    tokens_have_memory_of_their_moment(&lab.results.join("model/2048a"));
}

/// `tokens_memory.csv` has a line per token, and memory wherever there were samples around it.
fn tokens_have_memory_of_their_moment(run: &Path) {
    let text = fs::read_to_string(run.join("tokens_memory.csv")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let place = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
    let generated: Vec<&Vec<&str>> = lines.iter().filter(|line| line[place("is_generated")] == "true").collect();
    assert_eq!(generated.len() as u64, TOKENS);
    let with_memory = generated.iter().filter(|line| !line[place("rss_mb")].is_empty()).count();
    assert!(with_memory > 200, "{with_memory} of {TOKENS} tokens have memory");
    let last = generated.iter().rev().find(|line| !line[place("kv_mb")].is_empty()).unwrap();
    let kv_bytes = last[place("kv_mb")].parse::<f64>().unwrap() * 1_048_576.0;
    assert_eq!(kv_bytes, (4 + TOKENS - 1) as f64 * KV_BYTES_PER_TOKEN);
}

#[test]
fn what_cannot_be_compared_is_refused_with_its_reason() {
    let lab = Lab::new();
    let refused = |path: &Path, what: &str| {
        let output = compare(&[path], &[]);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.starts_with("error: ") && error.contains(what), "{error}");
        assert!(output.stdout.is_empty());
    };
    refused(&lab.place.path().join("nowhere"), "nowhere");
    let empty = lab.place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(&empty, "empty");
    fs::write(lab.place.path().join("file"), "x").unwrap();
    refused(&lab.place.path().join("file"), "file");
    let unfinished = dwell_store::RunDir::create(&lab.results, "tiny", "unfinished").unwrap();
    refused(unfinished.path(), "unfinished");
    refused(&lab.results, "1 run excluded: 1 unfinished");
    let output = compare(&[], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
}
