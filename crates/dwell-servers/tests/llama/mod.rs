//! What the tests of llama.cpp's programs share: real programs, small models, and an observer that keeps everything.

#![allow(dead_code, unused_imports)] // Each test binary uses a part.

#[path = "../../../../tests/cached.rs"]
mod cached;
#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
#[path = "../../../../tests/workplace.rs"]
mod workplace;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use cached::{cached, llama_program};
use dwell_events::engine::{
    Action, Engine, EngineEvent, EngineFailure, EngineKind, EngineOptions, Job, JobObserver, StopReason,
};
use dwell_events::server::{RequestTimings, ServerDescription, ServerOptions};
use dwell_servers::{HttpClient, Interruption, ServerEngine, ServerPlace};
pub use skip::skip;
pub use waiting::{send, wait_for};
pub use workplace::Workplace;

/// The trained model, which has a chat template, or a note that the test cannot run here.
pub fn trained_model(test: &str) -> Option<PathBuf> {
    let found = cached("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if found.is_none() {
        skip(test, "the trained model is not in the cache (scripts/setup.sh test gets it)");
    }
    found
}

impl Workplace {
    /// Writes a program.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Where programs are started that are not recorded.
    pub fn place(&self) -> ServerPlace {
        ServerPlace {
            log_dir: self.path().to_owned(),
            ring_dir: None,
            preload_library: None,
            allocation_library: None,
            observer_pid: std::process::id(),
            cache_dir: std::path::PathBuf::new(),
            page_sample_interval_ms: 100,
            guard: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Where programs are recorded, or a note that the test cannot run here.
    pub fn recorded(&self, test: &str) -> Option<ServerPlace> {
        let library = std::env::current_exe().unwrap().parent().unwrap().with_file_name("libdwell_preload.so");
        if !library.exists() {
            skip(test, "the recorder's library is not built (cargo build --release -p dwell-preload)");
            return None;
        }
        let ring_dir = self.path().join("rings");
        fs::create_dir(&ring_dir).unwrap();
        Some(ServerPlace {
            environment: vec![
                ("DWELL_RING_DIR".into(), ring_dir.clone().into()),
                ("DWELL_OBSERVER_PID".into(), std::process::id().to_string().into()),
            ],
            ring_dir: Some(ring_dir),
            preload_library: Some(library),
            allocation_library: None,
            ..self.place()
        })
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("server.log")).unwrap_or_default()
    }
}

/// A job for a program on a model: 512 positions, one thread, the likeliest token, no end.
pub fn job(engine: EngineKind, program: &Path, model: &Path, actions: Vec<Action>) -> Job {
    let mut options = EngineOptions::new(model.to_owned());
    options.context_length = 512;
    options.ignore_end = true;
    let server = ServerOptions { program: Some(program.to_owned()), ..ServerOptions::default() };
    Job { engine, server, options, actions }
}

pub fn prompt(text: &str, sequences: &[i32]) -> Action {
    Action::Prompt { text: text.to_owned(), sequences: sequences.to_vec(), fill_to_tokens: None }
}

pub fn generate(max_tokens: u32, sequences: &[i32]) -> Action {
    Action::Generate { max_tokens, sequences: sequences.to_vec() }
}

/// Sees everything so far after each event; true interrupts the job.
type OnEvent<'a> = Box<dyn FnMut(&[EngineEvent]) -> bool + 'a>;

/// Keeps every event, and looks at them as they come.
pub struct Watcher<'a> {
    pub events: Vec<EngineEvent>,
    on_event: OnEvent<'a>,
    is_interrupted: bool,
}

impl<'a> Watcher<'a> {
    pub fn new() -> Self {
        Self::watching(|_| false)
    }

    pub fn watching(on_event: impl FnMut(&[EngineEvent]) -> bool + 'a) -> Self {
        Self { events: Vec::new(), on_event: Box::new(on_event), is_interrupted: false }
    }
}

impl JobObserver for Watcher<'_> {
    fn event(&mut self, event: EngineEvent) {
        self.events.push(event);
        self.is_interrupted |= (self.on_event)(&self.events);
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }
}

/// Does a job that must go well.
pub fn run(place: ServerPlace, job: &Job) -> Told {
    let mut watcher = Watcher::new();
    ServerEngine::new(place).run(job, &mut watcher).unwrap();
    Told(watcher.events)
}

/// Does a job that must fail.
pub fn fail(place: ServerPlace, job: &Job) -> (EngineFailure, Told) {
    let mut watcher = Watcher::new();
    let failure = ServerEngine::new(place).run(job, &mut watcher).unwrap_err();
    (failure, Told(watcher.events))
}

/// What was told.
pub struct Told(pub Vec<EngineEvent>);

impl Told {
    /// Names of the events, runs of the same taken together.
    pub fn order(&self) -> Vec<String> {
        let name = |event: &EngineEvent| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = self.0.iter().map(name).collect();
        names.dedup();
        names
    }

    pub fn ids(&self, sequence: i32) -> Vec<i32> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Token { sequence: found, id, .. } if *found == sequence => *id,
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    pub fn steps(&self, sequence: i32) -> Vec<u32> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Token { sequence: found, step, .. } if *found == sequence => Some(*step),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    pub fn text(&self, sequence: i32) -> String {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Token { sequence: found, text, .. } if *found == sequence => Some(text.clone()),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    pub fn timings(&self) -> Vec<RequestTimings> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::RequestEnds { timings, .. } => Some(*timings),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    pub fn reasons(&self) -> Vec<(i32, StopReason)> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Stopped { sequence, reason } => Some((*sequence, *reason)),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    pub fn facts(&self) -> ServerDescription {
        let of = |event: &EngineEvent| match event {
            EngineEvent::Serving { server } => Some((**server).clone()),
            _ => None,
        };
        self.0.iter().find_map(of).unwrap()
    }

    pub fn pids(&self) -> Vec<u32> {
        pids(&self.0)
    }
}

pub fn pids(events: &[EngineEvent]) -> Vec<u32> {
    let of = |event: &EngineEvent| match event {
        EngineEvent::ProcessFound { pid, .. } => Some(*pid),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

pub fn is_token(event: &EngineEvent) -> bool {
    matches!(event, EngineEvent::Token { .. })
}

/// Whether nothing is left of a process, not even a zombie.
pub fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// A server that a user started.
pub struct OwnServer {
    child: Child,
    pub url: String,
}

impl OwnServer {
    pub fn start(program: &Path, model: &Path, arguments: &[&str]) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .arg("-m")
            .arg(model)
            .args(["-c", "512", "-t", "1", "--host", "127.0.0.1", "--port", &port.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, url: format!("http://127.0.0.1:{port}") };
        wait_for("the server", || server.client().get_text("/health").ok());
        server
    }

    pub fn client(&self) -> HttpClient {
        HttpClient::new(EngineKind::LlamaServer, &self.url, None, Interruption::default()).unwrap()
    }

    /// A plain request, as anybody would make it.
    pub fn ask(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        self.client().post_slow_json(path, body).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The words that make a program end with the process that started it, by the signal that the worker's guard sends to programs of
/// llama.cpp: asked by SIGTERM, llama-server may wait in its signal handler for a lock that it holds itself.
pub fn guard() -> Vec<OsString> {
    ["setpriv", "--pdeathsig", "KILL", "--"].map(OsString::from).to_vec()
}
