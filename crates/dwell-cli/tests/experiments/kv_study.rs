//! The KV study, with the real llama-server.

use std::path::PathBuf;

use dwell_events::engine::KvType;

use crate::common::{cached, skip, text_of};
use crate::lab::Lab;
use crate::served::llama_server;

/// 2 runtimes × 2 contexts × 3 types.
const QUICK_RUNS: usize = 12;
/// Keys and values of one token in SmolLM2-135M: 30 layers, 3 heads of 64 values.
const VALUES_PER_TOKEN: u64 = 2 * 30 * 3 * 64;
/// llama-server says what it allocated in hundredths of a MiB.
const PRINTED_BYTES: u64 = (1 << 20) / 100;

/// The program's folder, if it and the model are there.
fn tools(test: &str) -> Option<PathBuf> {
    let program = llama_server(test)?;
    if cached("models/SmolLM2-135M-Instruct.Q4_1.gguf").is_none() {
        skip(test, "the default model is not in the cache");
        return None;
    }
    program.parent().map(PathBuf::from)
}

#[test]
fn the_quick_study_measures_both_runtimes_alike() {
    let Some(tools) = tools("the_quick_study_measures_both_runtimes_alike") else { return };
    let lab = Lab::new();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = lab.command(&["run", "--config", "kv_study_quick.yaml", "--json"]);
    let output = command.env("PATH", path).output().unwrap();
    crate::lab::assert_done(&output);
    let rows = lab.rows();
    assert_eq!(rows.len(), QUICK_RUNS);
    for row in &rows {
        let run = crate::common::Run { dir: lab.results().join(&row.path) };
        let metadata = run.metadata();
        assert_eq!(metadata["generation"]["generated_tokens"], 32, "{}", row.path);
        let kv_type = KvType::from_name(&row.kv_type).unwrap();
        let per_token = kv_type.row_bytes(VALUES_PER_TOKEN).unwrap();
        let kv = &metadata["memory"]["kv"];
        assert_eq!(kv["theory_bytes_per_token"], per_token, "{}", row.path);
        let context = u64::from(row.context_length.unwrap());
        let allocated = kv["allocated_bytes"].as_u64().unwrap();
        assert!(allocated.abs_diff(per_token * context) <= PRINTED_BYTES, "{}: {allocated}", row.path);
        // Three quarters of the context, and 32 of it the answer.
        let prompt = metadata["generation"]["prompt_tokens"].as_u64().unwrap();
        assert!(prompt.abs_diff(context * 3 / 4 - 32) <= 2, "{}: {prompt}", row.path);
    }
}

#[test]
fn the_study_is_planned_without_its_programs() {
    if cached("models/SmolLM2-135M-Instruct.Q4_1.gguf").is_none() {
        return skip("the_study_is_planned_without_its_programs", "the default model is not in the cache");
    }
    let lab = Lab::new();
    let output = lab.output(&["validate", "--config", "kv_study.yaml"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let said = text_of(&output);
    assert!(said.contains("valid: 162 runs of 3 models"), "{said}");
    assert!(said.contains("was trained for a context of 8192, and 32768 are asked for"), "{said}");
    assert!(said.contains("ollama ends an answer where the model does"), "{said}");
    assert_eq!(lab.planned("kv_study.yaml").len(), 162);
}
