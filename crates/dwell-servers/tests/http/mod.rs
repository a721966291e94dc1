//! What the tests of clients share: a server that does what a script says, and jobs against any server.

#![allow(dead_code, unused_imports)] // Each test binary uses a part.

#[path = "../../../../tests/cached.rs"]
mod cached;
#[path = "../../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

pub use cached::cached;
use dwell_events::engine::{Action, Engine, EngineEvent, EngineFailure, EngineKind, EngineOptions, Job, JobObserver};
use dwell_events::server::{RequestTimings, ServerDescription, ServerOptions};
use dwell_servers::{ServerEngine, ServerPlace};
pub use skip::skip;

/// The trained model of the cache.
pub const SMOLLM2: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

/// A request as that server got it.
pub struct Request {
    pub path: String,
    pub head: String,
    pub body: serde_json::Value,
}

/// A server of the test's own that answers each request as its script says: misbehaving on purpose, or with what the
/// documentation of a product says that it answers.
pub struct ScriptedServer {
    pub url: String,
    requests: Arc<Mutex<Vec<Arc<Request>>>>,
}

impl ScriptedServer {
    /// Answers each connection's request by calling this; the connection is closed afterwards.
    pub fn new(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                thread::spawn(move || {
                    let mut connection = connection.unwrap();
                    let Some(request) = read_request(&mut connection) else { return };
                    let request = Arc::new(request);
                    seen.lock().unwrap().push(Arc::clone(&request));
                    answer(&request, &mut connection);
                });
            }
        });
        Self { url, requests }
    }

    /// Has one model, and answers for text by calling this.
    pub fn with_model(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::new(move |request, connection| match request.path.as_str() {
            "/v1/models" => {
                write_answer(connection, 200, r#"{"object":"list","data":[{"id":"the-model","object":"model"}]}"#)
            }
            _ => answer(request, connection),
        })
    }

    pub fn requests(&self) -> MutexGuard<'_, Vec<Arc<Request>>> {
        self.requests.lock().unwrap()
    }
}

fn read_request(connection: &mut TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    Some(Request { path, head, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// A whole answer.
pub fn write_answer(connection: &mut TcpStream, status: u16, body: &str) {
    let head =
        format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\nContent-Type: application/json\r\n\r\n", body.len());
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

/// The head of an answer that comes in chunks.
pub fn begin_stream(connection: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
}

/// One chunk; a client that went away is no error here.
pub fn write_chunk(connection: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    connection.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
    connection.write_all(bytes)?;
    connection.write_all(b"\r\n")
}

/// The event of a token.
pub fn token(text: &str) -> Vec<u8> {
    let choice = serde_json::json!({"choices": [{"index": 0, "text": text, "finish_reason": null}]});
    format!("data: {choice}\n\n").into_bytes()
}

/// Called with each event before it is kept.
pub type OnEvent = Box<dyn FnMut(&EngineEvent)>;

/// Keeps what happens, and interrupts after so many tokens.
#[derive(Default)]
pub struct Watcher {
    pub events: Vec<EngineEvent>,
    pub interrupt_after_tokens: Option<usize>,
    pub on_event: Option<OnEvent>,
}

impl JobObserver for Watcher {
    fn event(&mut self, event: EngineEvent) {
        if let Some(on_event) = &mut self.on_event {
            on_event(&event);
        }
        self.events.push(event);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt_after_tokens.is_some_and(|tokens| self.tokens(0).len() >= tokens)
    }
}

impl Watcher {
    /// One that calls this with each event.
    pub fn calling(on_event: impl FnMut(&EngineEvent) + 'static) -> Self {
        Self { on_event: Some(Box::new(on_event)), ..Self::default() }
    }

    /// Texts of the tokens of a sequence.
    pub fn tokens(&self, of: i32) -> Vec<&str> {
        let token = |event| match event {
            &EngineEvent::Token { sequence, ref text, .. } if sequence == of => Some(text.as_str()),
            _ => None,
        };
        self.events.iter().filter_map(token).collect()
    }

    pub fn facts(&self) -> &ServerDescription {
        let facts = self.events.iter().find_map(|event| match event {
            EngineEvent::Serving { server } => Some(&**server),
            _ => None,
        });
        facts.unwrap()
    }

    /// What the server says of each request, in order.
    pub fn timings(&self) -> Vec<RequestTimings> {
        let timings = |event| match event {
            &EngineEvent::RequestEnds { timings, .. } => Some(timings),
            _ => None,
        };
        self.events.iter().filter_map(timings).collect()
    }

    pub fn processes(&self) -> BTreeMap<u32, &str> {
        let process = |event| match event {
            &EngineEvent::ProcessFound { pid, ref role } => Some((pid, role.as_str())),
            _ => None,
        };
        self.events.iter().filter_map(process).collect()
    }
}

/// A job: one prompt and its answer, against a server.
pub fn job(engine: EngineKind, url: &str, prompt: &str, max_tokens: u32) -> Job {
    let sequences = vec![0];
    Job {
        engine,
        server: ServerOptions { url: Some(url.to_owned()), ..ServerOptions::default() },
        options: EngineOptions::new(PathBuf::new()),
        actions: vec![
            Action::Prompt { text: prompt.to_owned(), sequences: sequences.clone(), fill_to_tokens: None },
            Action::Generate { max_tokens, sequences },
        ],
    }
}

/// A place in a folder, with variables for what is started.
pub fn place(folder: &Path, environment: &[(&str, &str)]) -> ServerPlace {
    ServerPlace {
        log_dir: folder.to_owned(),
        ring_dir: None,
        preload_library: None,
        allocation_library: None,
        observer_pid: std::process::id(),
        cache_dir: std::path::PathBuf::new(),
        page_sample_interval_ms: 100,
        guard: Vec::new(),
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
    }
}

/// Does a job against a server that is joined.
pub fn run(job: &Job, watcher: &mut Watcher) -> Result<(), EngineFailure> {
    let folder = tempfile::tempdir().unwrap();
    ServerEngine::new(place(folder.path(), &[])).run(job, watcher)
}

/// Runs one test of this binary again in a process with other variables, and expects it to pass.
pub fn passes_with(test: &str, variables: &[(&str, &str)]) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

/// Kills a child when the test ends.
pub struct Running(pub std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A flag that threads of a test share.
pub fn flag() -> (Arc<AtomicBool>, impl Fn() -> bool) {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    (flag, move || seen.load(Ordering::SeqCst))
}
