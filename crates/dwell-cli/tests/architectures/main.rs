//! Tiny models of many architectures, each run once: whose memory every row is of, that rows lie inside their tensors, and
//! that the bytes kept of a token and of a sequence are those that follow from the model's shape.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod tiny;

use std::collections::HashMap;

use arrow_array::types::Int64Type;
use common::{Access, Run, Workplace, optional, text, wide};
use dwell_events::engine::KvType;
use dwell_events::schema::Table;
use dwell_gguf::{GgufFile, ModelShape};
use tiny::{ALL, Tiny};

const PROMPT_TOKENS: u64 = 6; // The beginning-of-text token and one token per byte of the prompt.
const DECODED: u32 = 3;
const ARGUMENTS: [&str; 7] = ["--prompt", "abcde", "--max-tokens", "4", "--ignore-end", "--chat-template", "off"];

/// What is wrong with the run of a model; nothing if it is as it should be.
fn problems(tiny: &Tiny) -> Vec<String> {
    let place = Workplace::new();
    let model = match tiny.make(place.path()) {
        Ok(model) => model,
        Err(problem) => return vec![problem],
    };
    let output = place.run_command(&model, &ARGUMENTS).output().unwrap();
    if !output.status.success() {
        return vec![common::text_of(&output)];
    }
    let run = place.opened_run(&model);
    let shape = ModelShape::from_gguf(&GgufFile::open(&model).unwrap()).unwrap();
    let accesses = run.accesses();
    [losses(&run), outside(&run, &accesses), kept_bytes(&accesses, &shape)].concat()
}

fn losses(run: &Run) -> Vec<String> {
    let kinds = run.batches(Table::Loss).into_iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| (text(&batch, "kind", row), text(&batch, "detail", row))).collect::<Vec<_>>()
    });
    // Samples of the process are missed on a busy machine.
    let expected = ["input_upload", "logits_read_back", "work_buffer", "missed_samples"];
    kinds
        .filter(|(kind, _)| !expected.contains(&kind.as_str()))
        .map(|(kind, detail)| format!("{kind}: {detail}"))
        .collect()
}

/// Rows that are nobody's, and rows that do not lie inside their region.
fn outside(run: &Run, accesses: &[Access]) -> Vec<String> {
    let mut regions: HashMap<i64, (u64, u64)> = HashMap::new();
    for batch in run.batches(Table::RegionMap) {
        for row in 0..batch.num_rows() {
            let (address, size_bytes) = (wide(&batch, "address", row), wide(&batch, "size_bytes", row));
            let region_id = optional::<Int64Type>(&batch, "region_id", row).unwrap();
            regions.insert(region_id, (address, address + size_bytes));
        }
    }
    let is_wrong = |access: &&Access| {
        let (begin, end) = regions[&i64::from(access.region_id)];
        access.region_type == "unknown" || access.address < begin || access.address + access.size_bytes > end
    };
    accesses.iter().filter(is_wrong).take(3).map(|access| format!("{access:?}")).collect()
}

/// Bytes of keys and values that each step stores, and of state that each step reads and writes.
fn kept_bytes(accesses: &[Access], shape: &ModelShape) -> Vec<String> {
    let sum = |step: u32, region_type: &str, is_store: bool| -> u64 {
        let wanted = |access: &&Access| {
            access.step == Some(step) && access.region_type == region_type && access.is_store == is_store
        };
        accesses.iter().filter(wanted).map(|access| access.size_bytes).sum()
    };
    let per_token = shape.kv_bytes_per_token(KvType::F16, KvType::F16).unwrap();
    let state = shape.state_bytes_per_sequence();
    let mut found = vec![("keys and values of the prompt", sum(0, "kv_cache", true), PROMPT_TOKENS * per_token)];
    for step in 1..=DECODED {
        found.push(("keys and values of a token", sum(step, "kv_cache", true), per_token));
        found.push(("state that is read", sum(step, "recurrent_state", false), state));
        found.push(("state that is written", sum(step, "recurrent_state", true), state));
    }
    let is_wrong = |(_, found, expected): &(&str, u64, u64)| found != expected;
    found
        .into_iter()
        .filter(is_wrong)
        .map(|(what, found, expected)| format!("{what}: {found}, needed {expected}"))
        .collect()
}

#[test]
fn every_architecture_keeps_the_bytes_that_its_shape_says_and_stays_inside_its_tensors() {
    let wanted = std::env::var("DWELL_ARCHITECTURE").ok();
    let tried = ALL.iter().filter(|tiny| wanted.as_deref().is_none_or(|name| name == tiny.architecture));
    let failed: Vec<String> = tried
        .map(|tiny| (tiny.architecture, problems(tiny)))
        .filter(|(_, problems)| !problems.is_empty())
        .map(|(architecture, problems)| format!("{architecture}:\n  {}", problems.join("\n  ")))
        .collect();
    assert!(failed.is_empty(), "{} of {} architectures:\n{}", failed.len(), ALL.len(), failed.join("\n"));
    assert!(ALL.len() >= 25, "many architectures");
}
