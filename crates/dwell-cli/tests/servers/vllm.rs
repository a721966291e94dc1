//! A real vLLM, joined and started: tokens, figures, KV blocks, and what the run says of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow_array::types::{Int64Type, UInt64Type};
use dwell_events::schema::Table;
use rustix::process::{Signal, kill_process_group};
use serde_json::{Value, json};

use crate::common::{Run, Workplace, optional, pid_of, text_of, wait_for};
use crate::deaths::{LiveRun, processes_with};
use crate::lab::{assert_sealed, assert_usable, command, done, samples, started, tokens};
use crate::vllm_server::{
    ARGUMENTS, BLOCK_TOKENS, POOL_BYTES, TOKEN_BYTES, Vllm, VllmServer, free_port, on_small_machine,
};

/// 45 tokens.
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog. ";
/// Eight sentences are 360 tokens: 11 blocks, and 8 tokens of a twelfth.
const SHARED_SENTENCES: usize = 8;
const SHARED_BLOCKS: u64 = 11;
const ANSWER_TOKENS: u32 = 24;

/// Five conversations that begin with the same words; each is answered before the next begins.
fn questions() -> Vec<String> {
    (0..5).map(|number| format!("{}Question {number}: ", SENTENCE.repeat(SHARED_SENTENCES))).collect()
}

/// A file with one prompt and one answer for each text.
fn actions(place: &Workplace, texts: &[String], max_tokens: u32) -> String {
    let turn = |(sequence, text): (usize, &String)| {
        [
            json!({"do": "prompt", "text": text, "sequences": [sequence]}),
            json!({"do": "generate", "max_tokens": max_tokens, "sequences": [sequence]}),
        ]
    };
    let list: Vec<Value> = texts.iter().enumerate().flat_map(turn).collect();
    let path = place.path().join("actions.json");
    std::fs::write(&path, Value::from(list).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A run with a server that runs already, which knows its model as `tiny`; with its requests and what was printed.
struct Joined {
    run: Run,
    requests: Vec<Value>,
    printed: String,
}

fn joined(place: &Workplace, server: &VllmServer, arguments: &[&str]) -> Joined {
    let given = ["--url", &server.url, "--kv-events", &server.events[0], "--kv-events-replay", &server.events[1]];
    let always = ["--kv-events-topic", "kv", "--ignore-end", "--sample-interval-ms", "20"];
    let model = Path::new("tiny");
    let output = command(place, model, "vllm", &[&given[..], &always[..], arguments].concat()).output().unwrap();
    let printed = text_of(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let run = place.opened_run(model);
    assert_usable(&run);
    let requests = run.metadata()["requests"].as_array().unwrap().clone();
    Joined { run, requests, printed }
}

/// Blocks that the server says it found, over all requests.
fn blocks_found(requests: &[Value]) -> u64 {
    requests.iter().map(|request| request["cached_tokens"].as_u64().unwrap() / BLOCK_TOKENS).sum()
}

/// How many blocks were used how often.
fn blocks_by_uses(run: &Run) -> BTreeMap<i64, u64> {
    let mut blocks = BTreeMap::new();
    for batch in run.batches(Table::KvBlockLifecycle) {
        for row in 0..batch.num_rows() {
            assert_eq!(optional::<UInt64Type>(&batch, "bytes", row), Some(BLOCK_TOKENS * TOKEN_BYTES));
            *blocks.entry(optional::<Int64Type>(&batch, "total_reads", row).unwrap()).or_default() += 1;
        }
    }
    blocks
}

/// Every event arrived, and a healthy server is not taken for one that leaks.
fn assert_healthy(run: &Run) {
    let metadata = run.metadata();
    let blocks = &metadata["kv_blocks"];
    for kind in
        ["lost_batches", "unseen_batches", "undecodable_batches", "unmatched", "unknown_events", "unseen_reuses"]
    {
        assert_eq!(blocks[kind], 0, "{kind}: {blocks}");
    }
    // A busy machine may be late with samples.
    let losses: Vec<_> = run.losses().into_iter().filter(|(kind, _)| kind != "missed_samples").collect();
    assert_eq!(losses, []);
    let verdict = &metadata["memory"]["verdict"];
    assert_ne!(verdict["kind"], "unexplained_growth", "{verdict}");
    assert!(metadata["generation"]["prompt_tokens_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_joined_vllm_is_told_as_it_tells_itself() {
    let Some(vllm) = Vllm::find("a_joined_vllm_is_told_as_it_tells_itself") else { return };
    let server_place = Workplace::new();
    let server = VllmServer::start(&vllm, &vllm.model(&server_place));
    assert_shared_prefix_is_found(&server);
    assert_answers_without_a_new_block_are_counted(&server);
    assert_prompts_have_the_wanted_length(&server);
    assert_long_answers_are_no_leak(&server);
}

fn assert_shared_prefix_is_found(server: &VllmServer) {
    let place = Workplace::new();
    let texts = questions();
    let file = actions(&place, &texts, ANSWER_TOKENS);
    let arguments = ["--actions", &file, "--api", "completion", "--parallel", "5"];
    let Joined { run, requests, .. } = joined(&place, server, &arguments);
    assert_healthy(&run);
    let metadata = run.metadata();

    let ids: Vec<i64> =
        tokens(&run).iter().filter(|token| token.sequence == 0).map(|token| token.id.unwrap().into()).collect();
    assert_eq!(ids, server.completion(&texts[0], ANSWER_TOKENS), "as the server answers without dwell");
    assert_eq!(tokens(&run).len(), 5 * ANSWER_TOKENS as usize);

    let cached: Vec<u64> = requests.iter().map(|request| request["cached_tokens"].as_u64().unwrap()).collect();
    let shared_tokens = SHARED_BLOCKS * BLOCK_TOKENS;
    assert_eq!(cached, [0, shared_tokens, shared_tokens, shared_tokens, shared_tokens]);
    assert_eq!(metadata["kv_blocks"]["reuses"], 4 * SHARED_BLOCKS);
    assert_eq!(blocks_by_uses(&run).get(&4), Some(&SHARED_BLOCKS));
    assert_eq!(metadata["kv_blocks"]["reused_blocks"], SHARED_BLOCKS);

    let told = &metadata["server"];
    assert!(told["version"].as_str().unwrap().starts_with("vLLM 0."), "{told}");
    // The server was given its model by a name that is relative to the folder of its own.
    assert_eq!((&told["reported"]["root"], &told["kv_bytes_per_token"]), (&"tiny".into(), &TOKEN_BYTES.into()));
    assert_eq!((&told["context_length"], &told["is_started_here"]), (&2048.into(), &false.into()));
    assert!(told["command_line"].as_array().unwrap().contains(&"serve".into()), "{told}");
    assert_eq!(metadata["memory"]["kv"]["allocated_bytes"], POOL_BYTES, "{}", metadata["memory"]["buffers"]);

    let figures = std::fs::read_to_string(run.dir.join("server_metrics.csv")).unwrap();
    assert!(figures.contains("vllm:kv_cache_usage_perc"), "{figures}");
    let pids: Vec<u32> =
        samples(&run).iter().filter(|sample| sample.label == "server").map(|sample| sample.pid).collect();
    assert!(pids.contains(&server.pid()), "found by its port: {pids:?}");
    assert!(pids.iter().any(|pid| *pid != server.pid()), "its engine is a process of its own: {pids:?}");
}

/// Prompts that are whole in the cache, and answers too short to fill a block: no event tells of them.
fn assert_answers_without_a_new_block_are_counted(server: &VllmServer) {
    let place = Workplace::new();
    let file = actions(&place, &vec![SENTENCE.repeat(SHARED_SENTENCES); 3], 2);
    let hits = server.figure("vllm:prefix_cache_hits_total");
    let arguments = ["--actions", &file, "--api", "chat", "--parallel", "3"];
    let Joined { run, requests, .. } = joined(&place, server, &arguments);
    assert_healthy(&run);
    let found = blocks_found(&requests);
    assert!(found >= 2 * SHARED_BLOCKS, "{requests:?}");
    assert_eq!(run.metadata()["kv_blocks"]["reuses"], found);
    let hits = server.figure("vllm:prefix_cache_hits_total") - hits;
    assert_eq!(hits, (found * BLOCK_TOKENS) as f64, "its own counter of tokens");
}

fn assert_prompts_have_the_wanted_length(server: &VllmServer) {
    let place = Workplace::new();
    let path = place.path().join("actions.json");
    let list = json!([
        {"do": "prompt", "text": "once upon a time ", "sequences": [0], "fill_to_tokens": 300},
        {"do": "generate", "max_tokens": 4, "sequences": [0]},
    ]);
    std::fs::write(&path, list.to_string()).unwrap();
    let arguments = ["--actions", path.to_str().unwrap(), "--api", "completion"];
    let Joined { run, requests, .. } = joined(&place, server, &arguments);
    assert_healthy(&run);
    assert_eq!((&requests[0]["prompt_tokens"], &requests[0]["generated_tokens"]), (&300.into(), &4.into()));
}

fn assert_long_answers_are_no_leak(server: &VllmServer) {
    for (prompt, parallel, max_tokens) in [("Tell me a story", "1", "1500"), ("And another one", "4", "400")] {
        let place = Workplace::new();
        let arguments = ["--prompt", prompt, "--parallel", parallel, "--max-tokens", max_tokens, "--api", "completion"];
        let Joined { run, printed, .. } = joined(&place, server, &arguments);
        assert_healthy(&run);
        assert_eq!(run.metadata()["memory"]["kv"]["theory_bytes_per_token"], TOKEN_BYTES);
        // Short answers can arrive all at once on a busy machine.
        assert!(run.metadata()["generation"]["decode_tokens_per_s"].as_f64().unwrap() > 0.0);
        assert!(printed.contains("tokens/s, as the client saw it"), "{printed}");
    }
}

/// `dwell run` that starts vLLM; every process of it has the mark in its environment.
fn started_here(vllm: &Vllm, place: &Workplace, model: &Path, arguments: &[&str]) -> (Command, String) {
    let always = ["--api", "completion", "--context-length", "2048", "--ignore-end", "--ready-secs", "900"];
    let mut command = started(place, model, "vllm", vllm.program(), &[&always, arguments].concat());
    command.args(ARGUMENTS.iter().flat_map(|argument| ["--server-arg", argument]));
    on_small_machine(&mut command).env("DWELL_TEST_MARK", place.path());
    (command, format!("DWELL_TEST_MARK={}", place.path().display()))
}

#[test]
fn a_vllm_that_dwell_starts_publishes_its_blocks_and_ends_with_the_run() {
    let Some(vllm) = Vllm::find("a_vllm_that_dwell_starts_publishes_its_blocks_and_ends_with_the_run") else { return };
    let place = Workplace::new();
    let model = vllm.model(&place);
    let [events, replay] = [free_port(), free_port()].map(|port| format!("tcp://127.0.0.1:{port}"));
    let file = actions(&place, &questions(), ANSWER_TOKENS);
    let arguments = ["--actions", &file, "--parallel", "5", "--kv-events", &events, "--kv-events-replay", &replay];
    let (command, mark) = started_here(&vllm, &place, &model, &arguments);
    let run = done(&place, &model, command);
    wait_for("the end of everything that was started", || processes_with(&mark).is_empty().then_some(()));
    assert_healthy(&run);
    let metadata = run.metadata();
    assert_eq!(metadata["kv_blocks"]["reuses"], 4 * SHARED_BLOCKS);
    assert_eq!(
        (&metadata["server"]["is_started_here"], &metadata["server"]["kv_bytes_per_token"]),
        (&true.into(), &TOKEN_BYTES.into())
    );
    assert_eq!(metadata["memory"]["kv"]["allocated_bytes"], POOL_BYTES);
    assert!(metadata["memory"]["timings"]["load_ns"].as_u64().unwrap() > 0);
    let why = metadata["server"]["untraced_because"].as_str().unwrap();
    assert!(why.contains("does not compute with ggml"), "{why}");
    let log = std::fs::read_to_string(run.dir.join("raw/server.log")).unwrap();
    assert!(log.contains("Application startup complete"), "{log}");
}

#[test]
fn an_interrupted_run_takes_the_vllm_along_that_it_started() {
    let Some(vllm) = Vllm::find("an_interrupted_run_takes_the_vllm_along_that_it_started") else { return };
    for (moment, is_there) in [("while it starts", false), ("while it answers", true)] {
        let place = Workplace::new();
        let model = vllm.model(&place);
        let (command, mark) = started_here(&vllm, &place, &model, &["--prompt", "hello", "--max-tokens", "2000"]);
        let live = LiveRun::start(&place, &model, command);
        let begin = Instant::now();
        // The observer, its worker, vLLM, and then the processes that vLLM starts.
        let has_begun = || if is_there { live.has_words() } else { processes_with(&mark).len() >= 3 };
        while !has_begun() {
            assert!(begin.elapsed() < Duration::from_secs(900), "it does not come {moment}");
            std::thread::sleep(Duration::from_millis(50));
        }
        kill_process_group(pid_of(live.child.id()), Signal::INT).unwrap();
        let (run, output) = live.wait();
        wait_for("the end of everything that was started", || processes_with(&mark).is_empty().then_some(()));
        let said = text_of(&output);
        if !is_there {
            assert_eq!(output.status.code(), Some(2), "{moment}: {said}");
            assert!(said.contains("the run was interrupted before anything was computed"), "{moment}: {said}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{moment}: {said}");
        assert_sealed(&run);
        assert!(run.losses().iter().any(|(kind, _)| kind == "interrupted"), "{moment}: {:?}", run.losses());
        assert!(!tokens(&run).is_empty(), "{moment}");
    }
}
