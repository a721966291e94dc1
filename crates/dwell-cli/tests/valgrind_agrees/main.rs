//! An independent witness: every byte of weights, KV cache and activations that valgrind saw a computation load or store
//! is in the trace, and nothing else is. Between computations it is the same with what the runtime does to these bytes:
//! writing inputs, reading results, clearing the KV cache.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../architectures/tiny.rs"]
mod tiny;

mod agreement;
mod bytes;
mod claims;
mod witness;
mod work;

use std::fs;
use std::path::PathBuf;

use common::{Workplace, skip};
use dwell_gguf::{MakeArchitecture, MakeSpec, WeightType};

/// Runs a made model under valgrind, with one thread and with two, and compares step by step.
fn check(name: &str, spec: MakeSpec, arguments: &[&str]) {
    check_model(name, |place| place.model(spec.clone()), arguments);
}

/// The same with a tiny model of an architecture.
fn check_architecture(name: &str, architecture: &str, arguments: &[&str]) {
    let tiny = tiny::ALL.iter().find(|tiny| tiny.architecture == architecture).unwrap();
    check_model(name, |place| tiny.make(place.path()).unwrap(), arguments);
}

fn check_model(name: &str, make: impl Fn(&Workplace) -> PathBuf, arguments: &[&str]) {
    if std::env::var_os("DWELL_QUICK").is_some() {
        return skip(name, "an instruction-level trace takes seconds");
    }
    let tool_folder = match witness::tool_folder() {
        Ok(folder) => folder,
        Err(reason) => return skip(name, &reason),
    };
    for threads in ["1", "2"] {
        let place = Workplace::new();
        let model = make(&place);
        let command = place.run_command(&model, &[arguments, &["--threads", threads]].concat());
        let raw_dir = place.opened_run(&model).dir.join("raw");
        let seen = witness::run(command, tool_folder, place.path(), raw_dir);
        let (name, run) = (format!("{name}, threads: {threads}"), place.opened_run(&model));
        agreement::compare(&name, &run, &seen);
        let work_bytes = work::compare_work(&name, &run, &seen, threads);
        println!("{name}: {work_bytes} B of work buffers agree");
    }
}

fn tiny(weight_type: WeightType) -> MakeSpec {
    MakeSpec {
        layers: 1,
        embedding: 64,
        heads: 2,
        kv_heads: 1,
        feed_forward: 128,
        vocabulary: 320,
        weight_type,
        ..MakeSpec::default()
    }
}

fn wide_rows(weight_type: WeightType) -> MakeSpec {
    MakeSpec { embedding: 256, heads: 4, kv_heads: 2, feed_forward: 256, ..tiny(weight_type) }
}

const SHORT: [&str; 4] = ["--prompt", "abc", "--max-tokens", "3"];

#[test]
fn f16_weights() {
    check("f16_weights", tiny(WeightType::F16), &SHORT);
}

#[test]
fn q4_k_weights() {
    check("q4_k_weights", wide_rows(WeightType::Q4_K), &[&SHORT[..], &["--repack", "off"]].concat());
}

#[test]
fn repacked_q4_k_weights() {
    check("repacked_q4_k_weights", wide_rows(WeightType::Q4_K), &SHORT);
}

#[test]
fn q8_0_weights_and_q8_0_cache() {
    check("q8_0_weights_and_q8_0_cache", wide_rows(WeightType::Q8_0), &[&SHORT[..], &["--kv-type", "q8_0"]].concat());
}

#[test]
fn q4_0_weights_and_q4_0_cache_without_mmap() {
    let arguments = [&SHORT[..], &["--kv-type", "q4_0", "--mmap", "off"]].concat();
    check("q4_0_weights_and_q4_0_cache_without_mmap", wide_rows(WeightType::Q4_0), &arguments);
}

#[test]
fn attention_in_separate_operations() {
    let arguments = [&SHORT[..], &["--flash-attention", "off"]].concat();
    check("attention_in_separate_operations", tiny(WeightType::F16), &arguments);
}

#[test]
fn a_prompt_of_seventy_tokens() {
    let prompt = "x".repeat(69);
    check("a_prompt_of_seventy_tokens", tiny(WeightType::F16), &["--prompt", &prompt, "--max-tokens", "3"]);
}

#[test]
fn attention_split_among_threads() {
    let prompt = "x".repeat(300);
    let arguments = ["--prompt", &prompt, "--max-tokens", "3", "--context-length", "512"];
    check("attention_split_among_threads", tiny(WeightType::F16), &arguments);
}

#[test]
fn products_in_tiles() {
    let arguments = ["--prompt", "abcdefghijkl", "--max-tokens", "3", "--repack", "off"];
    check("products_in_tiles", wide_rows(WeightType::Q4_K), &arguments);
}

#[test]
fn a_prompt_in_parts_of_which_only_the_last_gives_a_token() {
    let arguments = ["--prompt", "abcdefghij", "--max-tokens", "3", "--micro-batch-size", "4"];
    check("a_prompt_in_parts_of_which_only_the_last_gives_a_token", tiny(WeightType::F16), &arguments);
}

#[test]
fn q4_1_weights() {
    check("q4_1_weights", wide_rows(WeightType::Q4_1), &SHORT);
}

#[test]
fn f32_weights() {
    check("f32_weights", tiny(WeightType::F32), &SHORT);
}

#[test]
fn a_mixture_of_experts() {
    let spec = MakeSpec { experts: 8, experts_used: 2, ..tiny(WeightType::F16) };
    check("a_mixture_of_experts", spec, &SHORT);
}

#[test]
fn sliding_window_layers() {
    let spec = MakeSpec {
        architecture: MakeArchitecture::Gemma3,
        layers: 6,
        window: Some(8),
        head_dim: Some(32),
        ..tiny(WeightType::F16)
    };
    check("sliding_window_layers", spec, &["--prompt", "abcdefghijkl", "--max-tokens", "4"]);
}

#[test]
fn two_sequences_in_one_pool() {
    let arguments = [&SHORT[..], &["--parallel", "2", "--kv-unified"]].concat();
    check("two_sequences_in_one_pool", tiny(WeightType::F16), &arguments);
}

#[test]
fn two_sequences_with_a_stream_each() {
    let arguments = [&SHORT[..], &["--parallel", "2", "--context-length", "512"]].concat();
    check("two_sequences_with_a_stream_each", tiny(WeightType::F16), &arguments);
}

#[test]
fn removal_reuse_and_shift_of_cells() {
    let actions = tempfile::NamedTempFile::new().unwrap();
    let text = r#"[
        {"do": "prompt", "text": "abcdefgh", "sequences": [0]},
        {"do": "generate", "max_tokens": 2, "sequences": [0]},
        {"do": "remove", "sequence": 0, "from": 3, "to": 6},
        {"do": "shift", "sequence": 0, "from": 6, "to": -1, "delta": -3},
        {"do": "generate", "max_tokens": 3, "sequences": [0]}
    ]"#;
    fs::write(actions.path(), text).unwrap();
    check("removal_reuse_and_shift_of_cells", tiny(WeightType::F16), &["--actions", actions.path().to_str().unwrap()]);
}

#[test]
fn biases_of_experts_over_a_prompt() {
    check_architecture("biases_of_experts_over_a_prompt", "gpt-oss", &SHORT);
}

#[test]
fn sorting_among_many_experts() {
    let spec = MakeSpec { experts: 32, experts_used: 2, feed_forward: 32, ..tiny(WeightType::F16) };
    check("sorting_among_many_experts", spec, &SHORT);
}

#[test]
fn latent_attention() {
    check_architecture("latent_attention", "deepseek2", &SHORT);
}

#[test]
fn scans_of_two_sequences_among_four_states() {
    let actions = tempfile::NamedTempFile::new().unwrap();
    let text = r#"[
        {"do": "prompt", "text": "abc", "sequences": [0]},
        {"do": "prompt", "text": "de", "sequences": [2]},
        {"do": "generate", "max_tokens": 2, "sequences": [0, 2]},
        {"do": "generate", "max_tokens": 2, "sequences": [2]}
    ]"#;
    fs::write(actions.path(), text).unwrap();
    let arguments = ["--parallel", "4", "--context-length", "1024", "--actions", actions.path().to_str().unwrap()];
    check_architecture("scans_of_two_sequences_among_four_states", "mamba", &arguments);
}

#[test]
fn a_scan_beside_attention() {
    check_architecture("a_scan_beside_attention", "falcon-h1", &SHORT);
}

#[test]
fn recurrences_by_heads() {
    check_architecture("recurrences_by_heads, 6", "rwkv6", &SHORT);
    check_architecture("recurrences_by_heads, 7", "rwkv7", &SHORT);
}

#[test]
fn a_delta_net() {
    check_architecture("a_delta_net", "qwen3next", &SHORT);
}

#[test]
#[ignore = "takes minutes, for what docs/collectors/tensor_ops.md says of a model: DWELL_TRAFFIC_MODEL=FILE … --ignored --nocapture"]
fn traffic_of_a_model() {
    let model = std::env::var_os("DWELL_TRAFFIC_MODEL").expect("DWELL_TRAFFIC_MODEL names a model");
    let linked = |place: &Workplace| {
        let link = place.path().join("model.gguf");
        std::os::unix::fs::symlink(&model, &link).unwrap();
        link
    };
    check_model("traffic_of_a_model", linked, &SHORT);
}
