//! The publishers of vLLM and SGLang, driven from tests.

#![allow(dead_code, unused_imports)] // Each test binary uses a part.

#[path = "../../../../tests/skip.rs"]
mod skip;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
pub use skip::skip;

/// Versions that are fetched by `scripts/fetch-kv-publishers.sh`.
pub const VERSIONS: [&str; 5] = ["vllm-0.11.0", "vllm-0.22.0", "vllm-0.32.0", "sglang-0.5.15", "sglang-0.5.23"];

/// A process with the unmodified code of a publisher.
pub struct Publisher {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Publisher {
    /// Loads a version; none if it is not in the cache.
    pub fn load(version: &str) -> Option<Self> {
        let cache = cache();
        let (python, code) =
            (cache.join("venv-kv/bin/python"), cache.join("kv-publishers").join(version).join("kv_events.py"));
        if !python.exists() || !code.exists() {
            return None;
        }
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dwell-kv-events/tests/publisher/publish.py");
        let mut process =
            Command::new(python).arg(driver).arg(code).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Some(Self { process, commands, answers: BufReader::new(answers) })
    }

    /// Gives a command and waits for its answer.
    pub fn tell(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{command}: {answer:?}"));
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    /// Begins to publish.
    pub fn start(&mut self, endpoint: &str, replay_endpoint: Option<&str>) {
        self.tell(&json!({"do": "start", "endpoint": endpoint, "replay_endpoint": replay_endpoint, "topic": "kv"}));
    }

    /// Publishes a batch that stores one block of 4 tokens.
    pub fn publish_store(&mut self, ts: f64, hash: i64, parent: Option<i64>) {
        self.publish(
            ts,
            &json!([{"type": "BlockStored", "block_hashes": [hash], "parent_block_hash": parent,
                "token_ids": [1, 2, 3, 4], "block_size": 4, "lora_id": null, "medium": "GPU"}]),
        );
    }

    /// Publishes a batch that removes one block.
    pub fn publish_removal(&mut self, ts: f64, hash: i64) {
        self.publish(ts, &json!([{"type": "BlockRemoved", "block_hashes": [hash], "medium": "GPU"}]));
    }

    /// Publishes a batch.
    pub fn publish(&mut self, ts: f64, events: &Value) {
        self.tell(&json!({"do": "publish", "ts": ts, "events": events}));
    }

    /// Waits until so many batches were sent.
    pub fn wait_for(&mut self, batches: u64) {
        self.tell(&json!({"do": "published", "count": batches}));
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn cache() -> PathBuf {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"));
    cache.join("dwell")
}
