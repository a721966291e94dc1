//! The worker process: the embedded engine with the recorder linked in, or the driver of an engine that is a program of its
//! own.
//!
//! The observer starts it as a child of the same binary, so that observer and observed are two processes and the death
//! of either loses nothing that the other has. It reads a [`Job`] as JSON from standard input (from a file, if standard
//! input, output and error belong to the command that it is to run) and reports through the
//! recorder's ring; it writes nothing to standard output. The worker of a capture reads a
//! [`CaptureJob`](dwell_capture::CaptureJob) and reports on standard output.

mod capture;
mod linked;
mod programs;
mod signals;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_events::engine::{Engine, EngineEvent, EngineFailure, JOB_FILE_VARIABLE, Job, TimeResolution};
use dwell_ggml::{Recorder, RecorderOptions};
use dwell_llama::{Hooks, JobObserver, LlamaEngine, fill_chat_template};
use dwell_records::{Kind, Resolution, TRACED_VARIABLE};
use dwell_ring::{
    DEFAULT_CAPACITY_BYTES, EVENTS_CAPACITY_BYTES, OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE, RecordSender,
    process_exists,
};
use dwell_servers::ServerEngine;
use serde::de::DeserializeOwned;

pub use dwell_llama::{WantedTensor, runtime, wanted_tensors};
pub use dwell_servers::{InstalledProgram, find_program, installed_programs};
pub use programs::preload_library;
pub use signals::release_signals;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Runs the job that was given and returns the exit code of the process.
pub fn run() -> ExitCode {
    work(run_given_job)
}

/// Does the capture on standard input and returns the exit code of the process.
pub fn run_capture() -> ExitCode {
    work(capture::run_from_stdin)
}

fn work(task: fn() -> Result<(), String>) -> ExitCode {
    match die_with_the_observer().and_then(|()| task()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The log may be on the disk that is full.
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Without an observer nobody empties the ring. What is in it stays on disk for `dwell recover`.
///
/// Returns an error if the observer died before the kernel was asked.
fn die_with_the_observer() -> Result<(), String> {
    // SAFETY: asks the kernel for a signal; there is no memory involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if process_exists(observer_pid()?) { Ok(()) } else { Err("the observer has ended".to_owned()) }
}

fn observer_pid() -> Result<u32, String> {
    variable(OBSERVER_PID_VARIABLE)?.parse().map_err(|_| "the observer's process id is no number".to_owned())
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("the variable {name} is not set"))
}

/// What the observer wants.
fn given_job<J: DeserializeOwned>() -> Result<J, String> {
    let text = match std::env::var_os(JOB_FILE_VARIABLE) {
        Some(file) => std::fs::read_to_string(file),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
    };
    let text = text.map_err(|error| format!("reading the job: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("reading the job: {error}"))
}

fn run_given_job() -> Result<(), String> {
    let job: Job = given_job()?;
    if !job.engine.profile().takes_prompts {
        signals::hold();
    }
    let is_traced = std::env::var_os(TRACED_VARIABLE).is_some();
    // Where another program runs the model, this process only tells of it.
    let sender = start_sending(&job, is_traced && job.engine.is_embedded())?;
    let mut observer = Reporter { sender, is_interrupted: interruption_flag() };
    let mut engine = engine_of(&job, is_traced)?;
    if let Err(EngineFailure { message, hints }) = engine.run(&job, &mut observer) {
        observer.event(EngineEvent::Failed { message, hints });
    }
    if let Some(rss_bytes) = dwell_process::own_peak_rss_bytes() {
        observer.event(EngineEvent::PeakMemory { rss_bytes });
    }
    Ok(())
}

/// What does the job.
fn engine_of(job: &Job, is_traced: bool) -> Result<Box<dyn Engine>, String> {
    if !job.engine.is_embedded() {
        let place = programs::place(job, is_traced)?;
        return Ok(Box::new(ServerEngine::new(place).filling_templates(fill_template)));
    }
    let hooks = if is_traced { linked::record_graphs() } else { Hooks::default() };
    Ok(Box::new(LlamaEngine { hooks }))
}

/// A prompt in a chat template, as the embedded engine computes it.
fn fill_template(template: &str, text: &str) -> Result<String, String> {
    fill_chat_template(template, text).map_err(|error| error.to_string())
}

/// Whether a chat template is one that dwell can fill, for the embedded engine and for servers.
pub fn can_fill_template(template: &str) -> bool {
    fill_chat_template(template, "text").is_ok()
}

/// Makes the ring and, if this process is to be traced, the recorder.
fn start_sending(job: &Job, is_traced: bool) -> Result<Arc<RecordSender>, String> {
    let ring_dir = PathBuf::from(variable(RING_DIR_VARIABLE)?);
    let capacity_bytes = if is_traced { DEFAULT_CAPACITY_BYTES } else { EVENTS_CAPACITY_BYTES };
    let sender = RecordSender::create(&ring_dir, observer_pid()?, capacity_bytes)
        .map_err(|error| format!("making the recorder's ring: {error}, in \"{}\"", ring_dir.display()))?;
    let sender = Arc::new(sender);
    if is_traced {
        let (sender, resolution) = (sender.clone(), resolution_of(job));
        let options = RecorderOptions { sender, resolution, way_in: "linked", fork: None };
        RECORDER.get_or_init(|| Recorder::start(linked::api(), options));
    }
    Ok(sender)
}

fn resolution_of(job: &Job) -> Resolution {
    match job.options.time_resolution {
        TimeResolution::Step => Resolution::Step,
        TimeResolution::Layer => Resolution::Layer,
        TimeResolution::Op => Resolution::Op,
    }
}

/// Set by Ctrl-C or SIGTERM, however often they come: the same interruption can arrive from the terminal and from the
/// observer. A second one from the user ends the observer at once, and this process with it.
fn interruption_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // If a handler cannot be set, the signal keeps its usual effect; the run is then recovered from its raw files.
        let _ = signal_hook::flag::register(signal, flag.clone());
    }
    flag
}

struct Reporter {
    sender: Arc<RecordSender>,
    is_interrupted: Arc<AtomicBool>,
}

impl JobObserver for Reporter {
    fn event(&mut self, event: EngineEvent) {
        if let Ok(json) = serde_json::to_vec(&event) {
            self.sender.send(Kind::Engine, &json);
        }
    }

    fn event_at(&mut self, event: EngineEvent, time_ns: u64) {
        if let Ok(json) = serde_json::to_vec(&event) {
            self.sender.send_at(Kind::Engine, time_ns, &json);
        }
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }
}
