//! `dwell import kv-events`, with batches that the publishers of vLLM and SGLang encoded.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{Workplace, dwell, text_of};
use crate::publisher::{Publisher, VERSIONS};
use serde_json::{Value, json};

/// Steps of a server: three blocks are stored, one is built upon and removed, the cache is emptied.
fn steps() -> [Value; 3] {
    let stored = |hashes: &[i64], parent: Option<i64>| {
        json!({"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "block_size": 2,
            "token_ids": (0..2 * hashes.len()).collect::<Vec<_>>(), "lora_id": null, "medium": "GPU"})
    };
    [
        json!({"ts": 1.7e9, "events": [stored(&[1, 2], None)]}),
        json!({"ts": 1.7e9 + 1.0, "events": [stored(&[3], Some(1))]}),
        json!({"ts": 1.7e9 + 3.0, "events": [{"type": "BlockRemoved", "block_hashes": [2], "medium": "GPU"},
            {"type": "AllBlocksCleared"}]}),
    ]
}

/// The steps as a publisher encodes them: payloads with their lengths, and lines of JSON. None without a cache.
fn recorded_by(version: &str) -> Option<(Vec<u8>, String)> {
    let mut publisher = Publisher::load(version)?;
    let (mut payloads, mut lines) = (Vec::new(), String::new());
    for mut step in steps() {
        step["do"] = json!("encode");
        let encoded = publisher.tell(&step);
        let hex = encoded["msgpack"].as_str().unwrap();
        payloads.extend((hex.len() as u32 / 2).to_be_bytes());
        payloads.extend((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()));
        lines.push_str(encoded["json"].as_str().unwrap());
        lines.push('\n');
    }
    Some((payloads, lines))
}

fn import(place: &Workplace, file: &str, arguments: &[&str]) -> Output {
    let mut command = dwell();
    command.args(["import", "kv-events"]).arg(place.path().join(file)).arg("-o").arg(place.path().join("results"));
    command.args(arguments).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(output)))
}

#[test]
fn what_every_publisher_encodes_becomes_a_run() {
    for version in VERSIONS {
        let Some((payloads, lines)) = recorded_by(version) else {
            return crate::common::skip(
                "what_every_publisher_encodes_becomes_a_run",
                "the publishers are not in the cache",
            );
        };
        let place = Workplace::new();
        fs::write(place.path().join("batches.bin"), payloads).unwrap();
        fs::write(place.path().join("batches.jsonl"), lines).unwrap();
        for file in ["batches.bin", "batches.jsonl"] {
            let output = import(&place, file, &["--json", "--kv-bytes-per-token", "10"]);
            assert_eq!(output.status.code(), Some(0), "{version}, {file}: {}", text_of(&output));
            let report = report(&output);
            let counts =
                ["batches", "stored", "reuses", "removed", "cleared", "alive"].map(|key| report[key].as_u64().unwrap());
            assert_eq!(counts, [3, 3, 1, 1, 2, 0], "{version}, {file}");
            assert_eq!(report["media"]["GPU"], json!({"stored": 3, "ended": 3, "alive": 0}), "{version}, {file}");
            let verified = dwell().arg("verify").arg(report["run_dir"].as_str().unwrap()).output().unwrap();
            assert!(verified.status.success(), "{version}, {file}: {}", text_of(&verified));
        }
        let results = dwell().arg("verify").arg(place.path().join("results")).output().unwrap();
        assert!(results.status.success(), "{version}: {}", text_of(&results));
    }
}

/// The same without a publisher: lines that are as theirs.
fn write_lines(place: &Workplace, name: &str) {
    let line = |step: &Value| format!("[{}, {}]\n", step["ts"], step["events"]);
    fs::write(place.path().join(name), steps().iter().map(line).collect::<String>()).unwrap();
}

#[test]
fn the_summary_says_what_became_of_the_blocks() {
    let place = Workplace::new();
    write_lines(&place, "batches.jsonl");
    let output = import(&place, "batches.jsonl", &["--model-id", "served", "--run-id", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3 stored, 1 of them reused, 1 removed, 2 cleared"), "{text}");
    assert!(text.contains("lost      nothing"), "{text}");
    assert!(text.trim_end().ends_with("results/served/run"), "{text}");
}

#[test]
fn losses_are_said_and_change_the_exit_code() {
    let place = Workplace::new();
    let removal = json!([2.0, [["BlockRemoved", [77], "GPU"]]]);
    let numbered =
        format!("{}\nnot a batch\n{}\n", json!({"seq": 0, "batch": [1.0, []]}), json!({"seq": 4, "batch": removal}));
    fs::write(place.path().join("batches.jsonl"), numbered).unwrap();
    let output = import(&place, "batches.jsonl", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    // The line that is no batch has taken one of the four numbers.
    assert!(text.contains("2 batches lost, 1 batches not decodable, 1 removals without a store"), "{text}");
}

#[test]
fn the_salt_is_kept_nowhere() {
    let place = Workplace::new();
    write_lines(&place, "batches.jsonl");
    for salt in [&["--salt", "pepper-42"][..], &["--salt=pepper-42"][..]] {
        let output = import(&place, "batches.jsonl", salt);
        assert!(output.status.success(), "{}", text_of(&output));
    }
    fn holds_salt(dir: &Path) -> bool {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.is_dir() {
            true => holds_salt(&path),
            false => fs::read(&path).unwrap().windows(9).any(|bytes| bytes == b"pepper-42"),
        })
    }
    assert!(!holds_salt(&place.path().join("results")));
}

#[test]
fn what_is_no_recording_is_refused() {
    let place = Workplace::new();
    fs::write(place.path().join("notes.txt"), "hello").unwrap();
    for file in ["notes.txt", "absent"] {
        let output = import(&place, file, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "), "{}", text_of(&output));
    }
}

#[test]
fn a_folder_with_an_imported_run_can_be_analysed_and_the_run_itself_cannot() {
    let place = Workplace::new();
    write_lines(&place, "batches.jsonl");
    let report = report(&import(&place, "batches.jsonl", &["--json"]));
    let tree = dwell().arg("analyse").arg(place.path().join("results")).output().unwrap();
    assert_eq!(tree.status.code(), Some(0), "{}", text_of(&tree));
    let run = dwell().arg("analyse").arg(report["run_dir"].as_str().unwrap()).output().unwrap();
    assert_eq!(run.status.code(), Some(2), "{}", text_of(&run));
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("error: "), "{}", text_of(&run));
}
