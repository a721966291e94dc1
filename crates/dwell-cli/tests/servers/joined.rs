//! A server that runs already.

use std::fs;

use dwell_gguf::MakeSpec;

use crate::common::{RunningServer, Workplace, llama_program, text_of, wait_for};
use crate::lab::{Sample, assert_sealed, command, samples, slow, tokens};

#[test]
fn a_joined_server_is_sampled_and_it_is_said_why_it_is_not_traced() {
    let name = "a_joined_server_is_sampled_and_it_is_said_why_it_is_not_traced";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(slow());
    let server = RunningServer::start(&program, &model);
    let arguments = ["--url", &server.url, "--api", "completion", "--prompt", "hello", "--max-tokens", "200"];
    let mut command = command(&place, &model, "openai", &arguments);
    let output = command.args(["--sample-interval-ms", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let run = place.opened_run(&model);
    assert_sealed(&run);
    let metadata = run.metadata();
    assert_eq!(metadata["state"], "complete");
    assert_eq!(metadata["server"]["is_started_here"], false);
    let why = &metadata["server"]["untraced_because"];
    assert!(why.as_str().unwrap().contains("joined"), "{why}");
    assert_eq!(&metadata["collectors"]["fallbacks"][0]["reason"], why);
    assert_eq!(metadata["collectors"]["used"], serde_json::json!(["process", "pressure"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains(why.as_str().unwrap()), "{}", text_of(&output));
    assert_eq!(run.accesses().len(), 0);

    let told = tokens(&run);
    assert_eq!(metadata["requests"][0]["generated_tokens"], 200);
    // Tokens that end inside a character come together, and this API does not count them.
    assert!((50..=200).contains(&told.len()), "{} pieces", told.len());
    assert!(told.iter().all(|token| token.kv_bytes.is_none()), "{told:?}");
    assert!(told.last().unwrap().rss_bytes.is_some(), "{told:?}");
    let of_server = |sample: &&Sample| sample.label == "server";
    let pids: Vec<u32> = samples(&run).iter().filter(of_server).map(|sample| sample.pid).collect();
    assert!(!pids.is_empty() && pids.iter().all(|pid| *pid == server.pid()), "found by its port: {pids:?}");
}

/// Whether the kernel notes writes of a process by its pages (flag `uw` of a mapping).
fn has_noted_pages(pid: u32) -> bool {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    smaps
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"))
        .any(|flags| flags.split(' ').any(|flag| flag == "uw"))
}

#[test]
fn nothing_stays_attached_to_a_server_whose_pages_were_watched_by_a_killed_dwell() {
    let name = "nothing_stays_attached_to_a_server_whose_pages_were_watched_by_a_killed_dwell";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    // Its answer takes seconds, so that dwell is surely killed before it is done.
    let model = place.model(MakeSpec { embedding: 1024, feed_forward: 2048, ..slow() });
    let server = RunningServer::start(&program, &model);
    let before = server.completion("hello", 8);
    let arguments = ["--url", &server.url, "--api", "completion", "--prompt", "hello", "--max-tokens", "200"];
    let mut command = command(&place, &model, "llama_server", &arguments);
    let mut dwell = command.args(["--collect", "process,pages"]).spawn().unwrap();
    wait_for("the pages of the server to be watched", || has_noted_pages(server.pid()).then_some(()));
    dwell.kill().unwrap();
    dwell.wait().unwrap();
    wait_for("the kernel to take the protection away", || (!has_noted_pages(server.pid())).then_some(()));
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    assert_eq!(server.completion("hello", 8), before);
}
