//! Runtimes in a page of real headless Chromium: whole runs, the same work as llama.cpp, and what can go wrong.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use dwell_gguf::MakeSpec;
use rustix::process::{Signal, kill_process_group};

use crate::common::{Run, Workplace, cached, dwell, pid_of, send, skip, text_of, wait_for, worker_of};
use crate::deaths::LiveRun;
use crate::lab::{answer, assert_refused, assert_sealed, assert_usable, command, done, slow, tokens};

/// Keys and values of one token in SmolLM2-135M: 30 layers, 3 heads of 64 values, 2 bytes each.
const SMOLLM2_KV_BYTES: u64 = 2 * 30 * 3 * 64 * 2;
/// Keys and values of one token in the model that `onnx_model.mjs` writes: 3 layers, 2 heads of 16 values, 4 bytes each.
const ONNX_KV_BYTES: u64 = 2 * 3 * 2 * 16 * 4;

/// More than dwell says before the first token.
const TOLD_BYTES: u64 = 80;

fn program_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn has_chromium(test: &str) -> bool {
    let is_there = program_in_path("chromium");
    if !is_there {
        skip(test, "no chromium in PATH");
    }
    is_there
}

/// Processes that name a folder in their command line.
fn processes_naming(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let names_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(folder)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(names_it).collect()
}

/// Nothing of a browser is left: no process that has its profile, and no profile.
fn assert_nothing_is_left(place: &Workplace, run: &Run) {
    let profile = run.dir.join("raw/browser-profile");
    wait_for("the end of the browser", || processes_naming(&profile).is_empty().then_some(()));
    let left = processes_naming(place.path());
    assert!(left.is_empty(), "processes are left: {left:?}");
    assert!(!profile.exists(), "the profile is left");
}

fn smollm2(test: &str) -> Option<PathBuf> {
    let model = cached("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if model.is_none() {
        skip(test, "the default model is not in the cache");
    }
    model
}

#[test]
fn wllama_says_what_llama_cpp_says_and_its_cache_takes_what_theory_says() {
    let name = "wllama_says_what_llama_cpp_says_and_its_cache_takes_what_theory_says";
    let Some(model) = smollm2(name).filter(|_| has_chromium(name)) else { return };
    let asked = ["--prompt", "The capital of France is", "--chat-template", "off", "--max-tokens", "16"];
    let asked = [&asked[..], &["--context-length", "512", "--sample-interval-ms", "50"]].concat();
    let (place, other) = (Workplace::new(), Workplace::new());
    let run = done(&place, &model, command(&place, &model, "wllama", &asked));
    let native_run = done(&other, &model, command(&other, &model, "llama_cpp", &asked));
    let native: String = tokens(&native_run).iter().rev().take(16).rev().map(|token| token.text.as_str()).collect();
    assert_eq!(answer(&run), native);
    let metadata = run.metadata();
    assert_eq!(metadata["generation"]["generated_tokens"], 16);
    let native_metadata = native_run.metadata();
    for fact in ["description", "parameters", "size_bytes", "layers", "vocabulary"] {
        assert_eq!(metadata["model"][fact], native_metadata["model"][fact], "{fact}");
    }
    assert_speeds_are_what_they_say(&metadata);
    let kv = &metadata["memory"]["kv"];
    assert_eq!(kv["theory_bytes_per_token"], SMOLLM2_KV_BYTES);
    assert_eq!(kv["allocated_bytes"], SMOLLM2_KV_BYTES * 512);
    assert_eq!(metadata["memory"]["verdict"]["kind"], "preallocated", "{}", metadata["memory"]["verdict"]);
    assert_memory_is_told_inside_and_outside(&run);
    assert_nothing_is_left(&place, &run);
}

/// The speed of the run is that by llama.cpp's own times; the one by the times of tokens is of the same steps.
fn assert_speeds_are_what_they_say(metadata: &serde_json::Value) {
    let [server, client] = ["server", "client"].map(|who| &metadata["memory"]["timings"][who]["decode_tokens_per_s"]);
    assert_eq!(&metadata["generation"]["decode_tokens_per_s"], server);
    let (server, client) = (server.as_f64().unwrap(), client.as_f64().unwrap());
    // Messages of the worker may reach the page late, on a machine whose processors are taken.
    assert!((0.5..2.0).contains(&(client / server)), "{client} and {server} tokens per second");
}

/// A few tokens leave no time for samples; that the cache was there before is known by its buffer.
#[test]
fn a_run_of_few_tokens_has_its_model_and_a_verdict() {
    let name = "a_run_of_few_tokens_has_its_model_and_a_verdict";
    if !has_chromium(name) {
        return;
    }
    let place = Workplace::new();
    // Writes bytes that are no UTF-8, which is no reason to fail.
    let model = place.model(MakeSpec::default());
    let asked = ["--prompt", "hello", "--max-tokens", "4", "--ignore-end", "--sample-interval-ms", "2000"];
    let run = done(&place, &model, command(&place, &model, "wllama", &asked));
    let metadata = run.metadata();
    assert_eq!(metadata["generation"]["generated_tokens"], 4);
    assert!(metadata["model"]["parameters"].as_u64().unwrap() > 100_000, "{}", metadata["model"]);
    let verdict = &metadata["memory"]["verdict"];
    assert_eq!(verdict["kind"], "preallocated", "{verdict}");
    assert!(verdict["sentence"].as_str().unwrap().contains("a buffer of"), "{verdict}");
    assert_nothing_is_left(&place, &run);
}

/// `memory.csv` has the processes by role, and the page with the columns that its own CSV has.
fn assert_memory_is_told_inside_and_outside(run: &Run) {
    let labels: BTreeSet<String> = samples_of_processes(run).into_iter().collect();
    for role in ["server:page", "server:gpu", "server:network", "server:browser", "server:total"] {
        assert!(labels.contains(role), "{role} is not in {labels:?}");
    }
    let text = fs::read_to_string(run.dir.join("memory.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(header[..5], ["timestamp", "label", "pid", "rss_mb", "vms_mb"]);
    let page: Vec<Vec<&str>> = lines.filter(|fields| fields[1] == "page").collect();
    assert!(page.len() > 10, "{} samples of the page", page.len());
    let last = page.last().unwrap();
    let number = |name: &str| last[place(name)].parse::<f64>().unwrap_or_else(|_| panic!("{name}: {last:?}"));
    assert_eq!(number("tokens"), 16.0);
    // The linear memory holds the weights, and lies in the process of the page.
    let wasm_mb = number("wasm_mb");
    assert!(wasm_mb > 100.0 && wasm_mb < number("vms_mb"), "{last:?}");
    assert!(number("rss_mb") > 100.0 && number("heap_used_mb") > 0.0 && number("heap_total_mb") > 0.0, "{last:?}");
    assert_eq!(number("gpu_mb"), 0.0);
    assert_shared_memory_is_divided(text.lines().skip(1), place("rss_mb"), place("pss_mb"));
    let times: Vec<f64> = text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    let first_page = page[0][0].parse::<f64>().unwrap();
    assert!(times[0] <= first_page && first_page <= times[times.len() - 1], "on one clock");
}

/// Chromium's processes share much of their memory: the sum of PSS is far below that of resident memory.
fn assert_shared_memory_is_divided<'a>(rows: impl Iterator<Item = &'a str>, rss: usize, pss: usize) {
    let totals = rows.map(|row| row.split(',').collect::<Vec<_>>()).filter(|row| row[1] == "server:total");
    let known: Vec<(f64, f64)> =
        totals.filter_map(|row| Some((row[rss].parse().ok()?, row[pss].parse().ok()?))).collect();
    assert!(!known.is_empty() && known.iter().all(|(rss, pss)| pss < rss), "{known:?}");
}

fn samples_of_processes(run: &Run) -> Vec<String> {
    let text = fs::read_to_string(run.dir.join("memory.csv")).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
}

/// A folder with a small ONNX model, if Node is there to write it.
fn onnx_model(test: &str, place: &Workplace) -> Option<PathBuf> {
    if !program_in_path("node") {
        skip(test, "no node in PATH");
        return None;
    }
    let folder = place.path().join("tiny-onnx");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/onnx_model.mjs");
    let output = Command::new("node").arg(script).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    Some(folder)
}

#[test]
fn the_cache_of_transformers_js_grows_with_every_token_as_theory_says() {
    let name = "the_cache_of_transformers_js_grows_with_every_token_as_theory_says";
    if !has_chromium(name) {
        return;
    }
    for device in ["wasm", "webgpu"] {
        let place = Workplace::new();
        let Some(model) = onnx_model(name, &place) else { return };
        let asked = ["--prompt", "hello", "--chat-template", "off", "--max-tokens", "24", "--device", device];
        let output = command(&place, &model, "transformers_js", &asked).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
        let run = place.opened_run(&model);
        assert_usable(&run);
        let memory = run.metadata()["memory"].clone();
        assert_eq!(memory["kv"]["theory_bytes_per_token"], ONNX_KV_BYTES, "{device}");
        assert_eq!(memory["verdict"]["kind"], "kv_growth_explained", "{device}: {}", memory["verdict"]);
        let measured = memory["kv"]["measured_bytes_per_token"].as_f64().unwrap();
        assert!((measured / ONNX_KV_BYTES as f64 - 1.0).abs() <= 0.02, "{device}: {measured}");
        assert_nothing_is_left(&place, &run);
    }
}

/// A generation that does not end by itself while a test goes on.
///
/// A model with random weights writes bytes that are no UTF-8, which wllama does not pass on.
fn live(test: &str, place: &Workplace, more: &[&str]) -> Option<(LiveRun, Run)> {
    let model = smollm2(test).filter(|_| has_chromium(test))?;
    let long = ["--prompt", "Once upon a time", "--chat-template", "off", "--ignore-end", "--max-tokens", "4000"];
    let long = [&long[..], &["--context-length", "4096"], more].concat();
    let live = LiveRun::start(place, &model, command(place, &model, "wllama", &long));
    wait_for("some words of the answer", || (live.bytes_told() > TOLD_BYTES).then_some(()));
    Some((live, place.opened_run(&model)))
}

fn process_with_role(run: &Run, role: &str) -> u32 {
    // Only the processes that Chromium itself lists are told apart by the first arguments of their command lines.
    let of_browser = processes_naming(&run.dir.join("raw/browser-profile"));
    let is_wanted = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        match role {
            "browser" => words.contains("/chromium ") && !words.contains("--type=") && !words.contains("crashpad"),
            role => words.contains(&format!("--type={role}")),
        }
    };
    // The renderer that computes has used the most processor time.
    let cpu = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(") ").next().unwrap_or_default().to_owned();
        after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    of_browser.into_iter().filter(is_wanted).max_by_key(cpu).expect("a process with this role")
}

fn assert_partial(place: &Workplace, run: &Run, said: &str) {
    let metadata = run.metadata();
    assert_eq!(metadata["state"], "partial");
    let failure = metadata["failure"].as_str().unwrap_or_default();
    assert!(failure.contains(said), "needed {said:?}: {failure:?}");
    assert!(!tokens(run).is_empty());
    assert_sealed(run);
    assert_nothing_is_left(place, run);
}

#[test]
fn a_tab_that_crashes_leaves_a_partial_run_that_says_so() {
    let place = Workplace::new();
    let name = "a_tab_that_crashes_leaves_a_partial_run_that_says_so";
    let Some((live, run)) = live(name, &place, &[]) else { return };
    send(process_with_role(&run, "renderer"), Signal::KILL);
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "the tab crashed");
}

#[test]
fn a_browser_that_is_killed_leaves_a_partial_run_that_says_how() {
    let place = Workplace::new();
    let name = "a_browser_that_is_killed_leaves_a_partial_run_that_says_how";
    let Some((live, run)) = live(name, &place, &[]) else { return };
    send(process_with_role(&run, "browser"), Signal::KILL);
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "Chromium was ended by signal 9");
}

#[test]
fn an_interrupted_page_is_a_partial_run_and_its_browser_is_gone() {
    let place = Workplace::new();
    let name = "an_interrupted_page_is_a_partial_run_and_its_browser_is_gone";
    let Some((live, run)) = live(name, &place, &[]) else { return };
    kill_process_group(pid_of(live.child.id()), Signal::INT).unwrap();
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "");
    assert!(run.losses().iter().any(|(kind, _)| kind == "interrupted"), "{:?}", run.losses());
}

#[test]
fn a_killed_worker_takes_the_browser_along_and_leaves_a_partial_run() {
    let place = Workplace::new();
    let name = "a_killed_worker_takes_the_browser_along_and_leaves_a_partial_run";
    let Some((live, run)) = live(name, &place, &[]) else { return };
    send(worker_of(live.child.id()).expect("the worker runs"), Signal::KILL);
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "signal 9");
}

/// The debugging port of a browser, beside the pipe by which dwell drives it: what a person's developer tools use.
struct DeveloperTools {
    port: u16,
}

impl DeveloperTools {
    const ARGUMENT: &str = "--server-arg=--remote-debugging-port=0";

    fn of(run: &Run) -> Self {
        let text = fs::read_to_string(run.dir.join("raw/browser-profile/DevToolsActivePort")).unwrap();
        Self { port: text.lines().next().unwrap().parse().unwrap() }
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{request}\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        stream
    }

    /// The id of the page that runs the model.
    fn page(&self) -> String {
        let mut stream = self.connect("GET /json/list HTTP/1.1");
        let head = head_of(&mut stream).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        // Chromium keeps the connection open.
        let mut body = vec![0; length.trim().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let pages: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let page = pages.as_array().unwrap().iter().find(|page| page["url"].as_str().unwrap().ends_with("/run.html"));
        page.expect("the page of the runtime")["id"].as_str().unwrap().to_owned()
    }

    fn close_page(&self) {
        head_of(&mut self.connect(&format!("GET /json/close/{} HTTP/1.1", self.page())));
    }

    fn reload_page(&self) {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
        let key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
        let path = format!("/devtools/page/{}", self.page());
        let mut stream = self.connect(&format!("GET {path} HTTP/1.1\r\n{upgrade}\r\n{key}"));
        head_of(&mut stream);
        let message = br#"{"id":1,"method":"Page.reload"}"#;
        // One whole text, masked by zeros.
        let length = 0x80 | u8::try_from(message.len()).unwrap();
        let frame = [&[0x81, length, 0, 0, 0, 0], &message[..]].concat();
        stream.write_all(&frame).unwrap();
        // The answer: the browser must not take the end of the connection for that of the wish.
        stream.read_exact(&mut [0; 2]).unwrap();
    }
}

/// The head of an answer.
fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_page_that_is_reloaded_leaves_a_partial_run_that_says_so() {
    let place = Workplace::new();
    let name = "a_page_that_is_reloaded_leaves_a_partial_run_that_says_so";
    let Some((live, run)) = live(name, &place, &[DeveloperTools::ARGUMENT]) else { return };
    DeveloperTools::of(&run).reload_page();
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "the page was reloaded or left");
}

#[test]
fn a_page_that_is_closed_leaves_a_partial_run_that_says_so() {
    let place = Workplace::new();
    let name = "a_page_that_is_closed_leaves_a_partial_run_that_says_so";
    let Some((live, run)) = live(name, &place, &[DeveloperTools::ARGUMENT]) else { return };
    DeveloperTools::of(&run).close_page();
    let (_, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&place, &run, "the page was closed");
}

/// A folder that dwell takes for a model of WebLLM.
fn mlc_model(place: &Workplace) -> PathBuf {
    let folder = place.path().join("mlc");
    fs::create_dir(&folder).unwrap();
    for name in ["mlc-chat-config.json", "tensor-cache.json", "tokenizer.json"] {
        fs::write(folder.join(name), "{}").unwrap();
    }
    fs::write(folder.join("model.wasm"), b"\0asm\x01\0\0\0").unwrap();
    folder
}

#[test]
fn a_browser_without_webgpu_or_without_storage_says_what_it_lacks() {
    let name = "a_browser_without_webgpu_or_without_storage_says_what_it_lacks";
    if !has_chromium(name) {
        return;
    }
    let place = Workplace::new();
    let refused = |model: &Path, engine: &str, arguments: &[&str], error: &str, hint: &str| {
        let output = command(&place, model, engine, arguments).output().unwrap();
        assert_refused(&place, &output, error, hint);
        assert!(processes_naming(place.path()).is_empty());
    };
    let no_adapter = ["--server-arg=--disable-gpu", "--server-arg=--disable-software-rasterizer"];
    let compiled = mlc_model(&place);
    refused(&compiled, "webllm", &no_adapter, "WebLLM needs WebGPU here", "");
    let small_pool = ["--server-arg=--enable-features=StorageQuotaSettings:PoolSizeBytes/1000"];
    refused(&compiled, "webllm", &small_pool, "the browser's storage is full", "free disk space");
    let Some(model) = onnx_model(name, &place) else { return };
    let on_webgpu = [&no_adapter[..], &["--device", "webgpu"]].concat();
    refused(&model, "transformers_js", &on_webgpu, "needs WebGPU here", "");
}

#[test]
fn a_browser_that_does_not_answer_or_load_in_time_is_ended() {
    let place = Workplace::new();
    let model = place.model(slow());
    let silent = place.path().join("silent");
    fs::write(&silent, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&silent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let hurried = ["--ready-secs", "1"];
    let mut asked = command(&place, &model, "wllama", &hurried);
    let output = asked.arg("--program").arg(&silent).output().unwrap();
    let error = "wllama did not become ready within 1 s: Chromium did not answer while calling Browser.getVersion";
    assert_refused(&place, &output, error, "--ready-secs");
    let name = "a_browser_that_does_not_answer_or_load_in_time_is_ended";
    let Some(model) = smollm2(name).filter(|_| has_chromium(name)) else { return };
    let output = command(&place, &model, "wllama", &hurried).output().unwrap();
    assert_refused(&place, &output, "wllama did not become ready within 1 s", "--ready-secs");
    assert!(processes_naming(place.path()).is_empty());
}

#[test]
fn what_cannot_be_run_is_refused_with_what_is_needed() {
    if !has_chromium("what_cannot_be_run_is_refused_with_what_is_needed") {
        return;
    }
    let place = Workplace::new();
    let model = place.model(slow());
    let refused = |mut command: Command, error: &str, hint: &str| {
        assert_refused(&place, &command.output().unwrap(), error, hint);
    };
    let no_page = ["--device", "webgpu"];
    refused(command(&place, &model, "llama_cpp", &no_page), "--device with the engine llama_cpp", "--engine wllama");
    let no_browser = ["--program", "/nonexistent/chromium"];
    refused(command(&place, &model, "wllama", &no_browser), "nothing is there, a program is needed", "--program");
    let cut = place.path().join("cut.gguf");
    fs::write(&cut, &fs::read(&model).unwrap()[..100_000]).unwrap();
    refused(command(&place, &cut, "wllama", &[]), "cut.gguf", "");
    refused(command(&place, &place.path().join("none.gguf"), "wllama", &[]), "none.gguf", "");
    refused(
        command(&place, &model, "webllm", &[]),
        "which is no folder; webllm needs the folder of a model",
        "--model",
    );
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(command(&place, &empty, "webllm", &[]), "mlc-chat-config.json", "");
    assert!(processes_naming(place.path()).is_empty());
    let listed = dwell().args(["doctor"]).output().unwrap();
    let said = Command::new("chromium").arg("--version").output().unwrap();
    let version = text_of(&said).split_whitespace().find(|word| word.split('.').count() == 4).unwrap().to_owned();
    let line = text_of(&listed).lines().find(|line| line.contains("wllama")).unwrap().to_owned();
    assert!(line.contains(&version), "needed {version:?}: {line}");
}
