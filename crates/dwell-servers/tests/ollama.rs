//! A real Ollama, started by dwell or joined.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod http;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_events::engine::{Action, Engine, EngineEvent, EngineFailure, EngineKind, EngineOptions, Job, KvType};
use dwell_events::server::{Api, BufferKind, ReportedBuffer, ServerOptions, StartKind};
use dwell_servers::{HttpClient, Interruption, ServerEngine};
use http::{Running, SMOLLM2, Watcher, cached, job, place, run, skip};
use serde_json::{Value, json};

const PROGRAM: &str = "ollama/bin/ollama";
const MISSING: &str = "Ollama or the trained model is not in the cache (scripts/setup.sh test gets them)";
const PROMPT: &str = "The capital of France is";

/// A job for an Ollama that dwell starts with the trained model's file.
fn started_job(max_tokens: u32) -> Option<Job> {
    let mut job = job(EngineKind::Ollama, "", PROMPT, max_tokens);
    job.server = ServerOptions { program: Some(cached(PROGRAM)?), ..ServerOptions::default() };
    job.options = EngineOptions { context_length: 512, ..EngineOptions::new(cached(SMOLLM2)?) };
    Some(job)
}

/// Does a job with a store of models in this folder.
fn run_in(folder: &Path, job: &Job, watcher: &mut Watcher) -> Result<(), EngineFailure> {
    let models = folder.join("models");
    ServerEngine::new(place(folder, &[("OLLAMA_MODELS", models.to_str().unwrap())])).run(job, watcher)
}

/// An Ollama that was there before, with one model.
struct Joined {
    running: Running,
    client: HttpClient,
    _folder: tempfile::TempDir,
}

impl Joined {
    fn new() -> Option<Self> {
        let (program, model) = (cached(PROGRAM)?, cached(SMOLLM2)?);
        // Not the usual folder of temporary files, which may be memory itself and then never lets go of a file.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = format!("127.0.0.1:{port}");
        let mut serve = Command::new(&program);
        serve.arg("serve").env("OLLAMA_HOST", &host).env("OLLAMA_MODELS", folder.path().join("models"));
        serve.env("OLLAMA_NO_CLOUD", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(serve.spawn().unwrap());
        let client = HttpClient::new(EngineKind::Ollama, &host, None, Interruption::default()).unwrap();
        while client.get_json::<Value>("/api/version").is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::write(folder.path().join("Modelfile"), format!("FROM {}\n", model.display())).unwrap();
        let mut create = Command::new(&program);
        create.args(["create", "smol", "-f", "Modelfile"]).current_dir(folder.path()).env("OLLAMA_HOST", &host);
        assert!(create.output().unwrap().status.success());
        Some(Self { running, client, _folder: folder })
    }

    fn job(&self, max_tokens: u32) -> Job {
        let mut job = job(EngineKind::Ollama, self.client.url(), PROMPT, max_tokens);
        job.options.context_length = 512;
        job
    }

    fn pid(&self) -> u32 {
        self.running.0.id()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // A server that is killed leaves its runner behind, one that is asked to end does not.
        let pid = rustix::process::Pid::from_child(&self.running.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.running.0.wait();
    }
}

fn buffers(watcher: &Watcher) -> &[ReportedBuffer] {
    let buffers = watcher.events.iter().rev().find_map(|event| match event {
        EngineEvent::MemoryReported { buffers } => Some(buffers.as_slice()),
        _ => None,
    });
    buffers.unwrap()
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_started_ollama_makes_a_model_of_the_file_and_tells_everything() {
    let name = "a_started_ollama_makes_a_model_of_the_file_and_tells_everything";
    let Some(mut job) = started_job(12) else { return skip(name, MISSING) };
    (job.options.kv_type_k, job.options.kv_type_v) = (KvType::Q8_0, KvType::Q8_0);
    job.options.parallel = 2;
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::default();
    run_in(folder.path(), &job, &mut watcher).unwrap();

    assert_eq!(watcher.tokens(0).len(), 12);
    assert!(watcher.tokens(0).concat().starts_with(" Paris."), "{:?}", watcher.tokens(0));
    let timings = watcher.timings()[0];
    assert_eq!((timings.prompt_tokens, timings.cached_tokens, timings.generated_tokens), (Some(5), Some(0), Some(12)));
    assert!(timings.load_ns.is_some());
    assert!(timings.prompt_ns.unwrap() + timings.decode_ns.unwrap() <= timings.total_ns.unwrap());

    let facts = watcher.facts();
    assert!(facts.is_started_here && facts.was_loaded == Some(false));
    assert!(facts.version.as_ref().unwrap().starts_with("ollama 0."), "{facts:?}");
    assert!(facts.model_name.as_ref().unwrap().starts_with("dwell-"), "{facts:?}");
    assert_eq!(facts.reported["model_made_of"], job.options.model.display().to_string());
    assert!(fs::read(facts.model_path.as_ref().unwrap()).unwrap() == fs::read(&job.options.model).unwrap());
    assert_eq!((facts.context_length, facts.slots), (Some(256), Some(2)), "512 positions for two sequences");
    assert_eq!((facts.kv_type_k.as_deref(), facts.kv_type_v.as_deref()), (Some("q8_0"), Some("q8_0")));
    // 30 layers with 3 heads of 64 values, 34 bytes for each 32 values, keys and values.
    assert_eq!(facts.kv_bytes_per_token, Some(30 * 2 * 3 * 64 / 32 * 34));

    let of = |kind| buffers(&watcher).iter().filter(move |buffer| buffer.kind == kind).map(|buffer| buffer.bytes);
    let (cache, weights): (u64, u64) = (of(BufferKind::KvCache).sum(), of(BufferKind::Weights).sum());
    // The runner prints MiB with two digits.
    assert!(cache.abs_diff(512 * 12_240) <= 5_300, "{cache}");
    assert!(weights > 90 << 20, "{weights}");

    let roles: Vec<&str> = watcher.processes().into_values().collect();
    assert!(roles.contains(&"server") && roles.contains(&"runner"), "{roles:?}");
    for (&pid, role) in &watcher.processes() {
        assert!(!is_running(pid), "{role} {pid} was left behind");
    }
    let log = fs::read_to_string(folder.path().join("server.log")).unwrap();
    let loads = log.matches("llama_model_loader: loaded meta data").count();
    assert_eq!(loads, 1, "the request asks for the model as it was loaded before");
}

#[test]
fn the_file_is_stored_once_for_many_runs() {
    let name = "the_file_is_stored_once_for_many_runs";
    let Some(job) = started_job(2) else { return skip(name, MISSING) };
    let folder = tempfile::tempdir().unwrap();
    let made = || {
        let mut watcher = Watcher::default();
        run_in(folder.path(), &job, &mut watcher).unwrap();
        let path = watcher.facts().model_path.clone().unwrap();
        (path.clone(), fs::metadata(path).unwrap().modified().unwrap())
    };
    assert_eq!(made(), made());
}

#[test]
fn tokens_of_both_apis_are_those_of_a_plain_request() {
    let name = "tokens_of_both_apis_are_those_of_a_plain_request";
    let Some(server) = Joined::new() else { return skip(name, MISSING) };
    let options = json!({"num_ctx": 512, "num_predict": 10, "temperature": 0, "num_thread": 1, "num_batch": 2048});
    for (api, path, question) in [
        (Api::Completion, "/api/generate", json!({"prompt": PROMPT, "raw": true})),
        (Api::Chat, "/api/chat", json!({"messages": [{"role": "user", "content": PROMPT}]})),
    ] {
        let mut job = server.job(10);
        job.server.api = api;
        let mut watcher = Watcher::default();
        run(&job, &mut watcher).unwrap();
        let mut question = question;
        for (key, value) in
            [("model", json!("smol")), ("stream", json!(false)), ("shift", json!(false)), ("options", options.clone())]
        {
            question[key] = value;
        }
        let plain: Value = server.client.post_slow_json(path, &question).unwrap();
        let text = plain["response"].as_str().or(plain["message"]["content"].as_str()).unwrap();
        assert_eq!(watcher.tokens(0).concat(), text);
        assert_eq!(watcher.timings()[0].prompt_tokens, plain["prompt_eval_count"].as_u64());
        assert_eq!(watcher.facts().model_name.as_deref(), Some("smol:latest"), "the only one it has");
    }
}

#[test]
fn a_joined_ollama_is_left_alone_and_its_runner_is_found() {
    let name = "a_joined_ollama_is_left_alone_and_its_runner_is_found";
    let Some(server) = Joined::new() else { return skip(name, MISSING) };
    let mut watcher = Watcher::default();
    run(&server.job(2), &mut watcher).unwrap();
    let processes = watcher.processes();
    assert_eq!(processes[&server.pid()], "server");
    let runner = *processes.iter().find(|(_, role)| **role == "runner").unwrap().0;
    assert!(is_running(server.pid()) && is_running(runner));
    let facts = watcher.facts();
    assert!(!facts.is_started_here && facts.untraced_because.is_some());
    assert_eq!((facts.kv_type_k.as_deref(), facts.kv_bytes_per_token), (Some("f16"), Some(23_040)));
    let total: u64 = buffers(&watcher).iter().map(|buffer| buffer.bytes).sum();
    assert_eq!(total.to_string(), facts.reported["ps.size"], "what it says of its memory, in one");

    // The same again finds the model loaded, and cold does not.
    let mut again = Watcher::default();
    run(&server.job(2), &mut again).unwrap();
    assert_eq!(again.facts().was_loaded, Some(true));
    assert_eq!(again.timings()[0].cached_tokens, Some(4), "all but the last token of the prompt are still there");
    let mut cold = server.job(2);
    cold.server.start = StartKind::Cold;
    let mut unloaded = Watcher::default();
    run(&cold, &mut unloaded).unwrap();
    assert_eq!(unloaded.facts().was_loaded, Some(false));
    let cached = |watcher: &Watcher| watcher.facts().reported["model_file_cached_bytes"].clone();
    assert_eq!(cached(&unloaded), "0", "its file was dropped from the page cache");
    assert_ne!(cached(&again), "0");
    assert!(!is_running(runner), "the runner has ended");
    assert_eq!(unloaded.timings()[0].cached_tokens, Some(0));
}

#[test]
fn a_model_that_is_not_there_is_named_with_the_way_to_get_it() {
    let name = "a_model_that_is_not_there_is_named_with_the_way_to_get_it";
    let Some(server) = Joined::new() else { return skip(name, MISSING) };
    let mut job = server.job(2);
    job.server.model_name = Some("nope".to_owned());
    let failure = run(&job, &mut Watcher::default()).unwrap_err();
    let expected = "asking ollama for the model \"nope\": model 'nope:latest' not found; it has smol:latest";
    assert_eq!(failure.message, expected);
    assert_eq!(failure.hints, ["ollama pull nope", "or make it of a file: ollama create nope -f Modelfile"]);
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_rather_than_cut() {
    let name = "a_prompt_that_does_not_fit_is_refused_rather_than_cut";
    let Some(server) = Joined::new() else { return skip(name, MISSING) };
    let mut job = server.job(2);
    job.actions[0] = Action::Prompt { text: "word ".repeat(2000), sequences: vec![0], fill_to_tokens: None };
    let failure = run(&job, &mut Watcher::default()).unwrap_err();
    assert!(
        failure.message.contains("status 400") && failure.message.contains("exceeds the available context size"),
        "{}",
        failure.message
    );
}

#[test]
fn a_runner_that_dies_in_the_middle_is_told_by_its_server() {
    let name = "a_runner_that_dies_in_the_middle_is_told_by_its_server";
    let Some(server) = Joined::new() else { return skip(name, MISSING) };
    let (mut runner, mut seen) = (None, 0);
    let mut watcher = Watcher::calling(move |event| match event {
        EngineEvent::ProcessFound { pid, role } if role == "runner" => runner = Some(*pid),
        EngineEvent::Token { .. } => {
            seen += 1;
            if seen == 5 {
                let pid = rustix::process::Pid::from_raw(runner.unwrap().cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
        _ => {}
    });
    let failure = run(&server.job(400), &mut watcher).unwrap_err();
    assert!(watcher.tokens(0).len() >= 5);
    let said = "an error was encountered while running the model: unexpected EOF";
    assert!(failure.message.starts_with("the server broke off its answer to POST "), "{}", failure.message);
    assert!(failure.message.ends_with(said), "{}", failure.message);
}

#[test]
fn what_ollama_cannot_do_is_refused_before_it_starts() {
    let mut job = job(EngineKind::Ollama, "http://127.0.0.1:1", PROMPT, 2);
    job.options.ignore_end = true;
    let failure = run(&job, &mut Watcher::default()).unwrap_err();
    assert_eq!(failure.message, "checking the options: ollama does not offer --ignore-end");
    job.options.ignore_end = false;
    job.server.url = None;
    job.options.kv_type_k = KvType::Q8_0;
    let failure = run(&job, &mut Watcher::default()).unwrap_err();
    assert_eq!(
        failure.message,
        "checking the options: ollama does not offer a --kv-type-v that differs from --kv-type-k"
    );
}
