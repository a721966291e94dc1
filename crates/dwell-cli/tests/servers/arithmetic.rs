//! llama-server is traced exactly, whatever the type of its KV cache, and its memory is what theory says.

use std::path::{Path, PathBuf};

use dwell_gguf::MakeSpec;
use serde_json::Value;

use crate::common::{Run, Workplace, dwell, llama_program, text_of};
use crate::lab::{Theory, assert_exact, assert_kv_bytes_of_tokens, done, started};

const GENERATED: u32 = 240;
/// The text `hello` and the token that begins every text.
const PROMPT_TOKENS: u64 = 6;

/// Its KV cache takes 32 KiB per token at f16, so that neither compute buffers nor the server's own heap matter.
fn model_with_large_cache(place: &Workplace) -> PathBuf {
    place.model(MakeSpec {
        layers: 4,
        embedding: 128,
        heads: 16,
        kv_heads: 16,
        head_dim: Some(128),
        feed_forward: 128,
        context: 16384,
        tied_output: false,
        ..MakeSpec::default()
    })
}

/// An answer that takes long enough for memory to be sampled during it.
fn run(place: &Workplace, model: &Path, program: &Path, kv_type: &str, context_length: &str) -> Run {
    let generated = GENERATED.to_string();
    let mut arguments = vec!["--prompt", "hello", "--ignore-end", "--max-tokens", &generated, "--kv-type", kv_type];
    arguments.extend(["--context-length", context_length, "--micro-batch-size", "32", "--sample-interval-ms", "3"]);
    done(place, model, started(place, model, "llama_server", program, &arguments))
}

fn assert_preallocated(run: &Run, theory: &Theory, context_length: u64) {
    let memory = &run.metadata()["memory"];
    assert_eq!(memory["verdict"]["kind"], "preallocated", "{memory}");
    let is_kv = |buffer: &&Value| buffer["kind"] == "kv_cache";
    let reported: u64 = memory["buffers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_kv)
        .map(|buffer| buffer["bytes"].as_u64().unwrap())
        .sum();
    // It is printed in hundredths of a mebibyte.
    assert!(reported.abs_diff(theory.kv_bytes * context_length) <= 10_486, "{memory}");
    assert_eq!(
        (&memory["kv"]["allocated_bytes"], &memory["kv"]["allocated_basis"]),
        (&reported.into(), &"reported".into())
    );
}

/// What `dwell compare` says of memory over context lengths: bytes per position, by theory and measured.
fn bytes_per_position(runs: &[&Run]) -> (f64, f64) {
    let output = dwell().args(["compare", "--json"]).args(runs.iter().map(|run| &run.dir)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |name: &str| report["context_lines"][0][name].as_f64().unwrap_or_else(|| panic!("{name}: {report}"));
    (figure("theory_bytes_per_token"), figure("bytes_per_token"))
}

fn assert_arithmetic(test: &str, kv_type: &str) {
    let Some(program) = llama_program(test, "llama-server") else { return };
    let place = Workplace::new();
    let model = model_with_large_cache(&place);
    let theory = Theory::of(&model, kv_type);
    let (small_place, large_place) = (Workplace::new(), Workplace::new());
    let small = run(&small_place, &model, &program, kv_type, "1024");
    assert_exact(&small, &theory, PROMPT_TOKENS, GENERATED);
    assert_kv_bytes_of_tokens(&small, &theory, PROMPT_TOKENS);
    assert_preallocated(&small, &theory, 1024);
    let large = run(&large_place, &model, &program, kv_type, "4096");
    assert_preallocated(&large, &theory, 4096);
    let (by_theory, measured) = bytes_per_position(&[&small, &large]);
    assert_eq!(by_theory, theory.kv_bytes as f64);
    assert!((measured / by_theory - 1.0).abs() <= 0.02, "{measured} bytes per position, {by_theory} by theory");
}

#[test]
fn a_cache_of_f16_is_what_theory_says() {
    assert_arithmetic("a_cache_of_f16_is_what_theory_says", "f16");
}

#[test]
fn a_cache_of_q8_0_is_what_theory_says() {
    assert_arithmetic("a_cache_of_q8_0_is_what_theory_says", "q8_0");
}

#[test]
fn a_cache_of_q4_0_is_what_theory_says() {
    assert_arithmetic("a_cache_of_q4_0_is_what_theory_says", "q4_0");
}
