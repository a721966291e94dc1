//! KV events that vLLM's own code publishes while a server that speaks its API answers.

use std::process::Stdio;

use dwell_events::schema::Table;
use serde_json::json;

use crate::common::{Run, RunningServer, Workplace, llama_program, skip, text, text_of};
use crate::lab::{assert_sealed, command, tiny, tokens};
use crate::publisher::Publisher;

const VERSION: &str = "vllm-0.32.0";
const BLOCKS: i64 = 10;
/// The batch that does not arrive.
const DROPPED: i64 = 3;

/// A run during which a publisher stores blocks of which one is dropped on the way; with its exit code.
fn run_with_events(place: &Workplace, server: &RunningServer, has_replay: bool) -> (Run, Option<i32>) {
    let endpoint = |name: &str| format!("ipc://{}", place.path().join(name).display());
    let (source, target, replay) = (endpoint("pub"), endpoint("proxy"), endpoint("replay"));
    let mut publisher = Publisher::load(VERSION).unwrap();
    publisher.start(&source, Some(&replay));
    publisher.tell(&json!({"do": "proxy", "from": source, "to": target, "drop": [DROPPED]}));

    let model = place.model(tiny());
    let arguments = ["--url", &server.url, "--prompt", "hello", "--max-tokens", "64", "--kv-events", &target];
    let mut command = command(place, &model, "vllm", &arguments);
    command.args(["--kv-events-topic", "kv", "--api", "completion"]);
    if has_replay {
        command.args(["--kv-events-replay", &replay]);
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It listens before its first request.
    publisher.tell(&json!({"do": "subscribed"}));
    for block in 0..BLOCKS {
        publisher.publish_store(1.7e9 + block as f64, block, (block > 0).then(|| block - 1));
    }
    let output = child.wait_with_output().unwrap();
    let run = place.opened_run(&model);
    assert!(run.dir.join("metadata.json").exists(), "{}", text_of(&output));
    (run, output.status.code())
}

fn block_hashes(run: &Run) -> usize {
    let hashes = |batch| {
        (0..arrow_array::RecordBatch::num_rows(&batch)).map(|row| text(&batch, "block_hash", row)).collect::<Vec<_>>()
    };
    let found: std::collections::BTreeSet<String> =
        run.batches(Table::KvBlockLifecycle).into_iter().flat_map(hashes).collect();
    found.len()
}

#[test]
fn blocks_that_are_published_during_a_run_are_in_its_table_and_lost_batches_are_counted() {
    let name = "blocks_that_are_published_during_a_run_are_in_its_table_and_lost_batches_are_counted";
    let Some(program) = llama_program(name, "llama-server") else { return };
    if Publisher::load(VERSION).is_none() {
        return skip(name, "the publishers are not in the cache (scripts/fetch-kv-publishers.sh gets them)");
    }
    let server_place = Workplace::new();
    let server = RunningServer::start(&program, &server_place.model(tiny()));

    let place = Workplace::new();
    let (whole, code) = run_with_events(&place, &server, true);
    assert_eq!((code, &whole.metadata()["state"]), (Some(0), &json!("complete")), "{:?}", whole.losses());
    assert_sealed(&whole);
    let blocks = whole.metadata()["kv_blocks"].clone();
    assert_eq!((&blocks["batches"], &blocks["stored"]), (&json!(BLOCKS), &json!(BLOCKS)), "{blocks}");
    assert_eq!(block_hashes(&whole), BLOCKS as usize);
    assert!(!tokens(&whole).is_empty());
    assert_eq!(whole.metadata()["collectors"]["used"], json!(["process", "kv_events", "pressure"]));

    let place = Workplace::new();
    let (lossy, code) = run_with_events(&place, &server, false);
    assert_eq!((code, &lossy.metadata()["state"]), (Some(1), &json!("partial")), "{:?}", lossy.losses());
    assert_sealed(&lossy);
    assert_eq!(block_hashes(&lossy), BLOCKS as usize - 1);
    let lost = lossy.losses().into_iter().find(|(kind, _)| kind == "lost_kv_batches");
    assert_eq!(lost, Some(("lost_kv_batches".to_owned(), 1)));
}
