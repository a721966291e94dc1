//! Does a job with a runtime that is a program of its own, and tells what happens.
//!
//! Work is done on threads of its own; the calling thread hands every event to the observer as it comes and asks it
//! whether to end.

mod conversation;
mod fill;
mod requests;
mod session;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use dwell_events::engine::{Engine, EngineEvent, EngineFailure, EngineKind, Job, JobObserver};

use crate::client::Runtime;
use crate::llama_cli::LlamaCli;
use crate::llama_server::LlamaServer;
use crate::ollama::OllamaRuntime;
use crate::openai::OpenAiRuntime;
use crate::{Interruption, ServerError, ServerPlace};

use session::Session;

/// How often the observer is asked whether to end while nothing happens.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// An engine that is a program of its own.
pub struct ServerEngine {
    place: ServerPlace,
}

impl ServerEngine {
    /// An engine that works in this place.
    pub fn new(place: ServerPlace) -> Self {
        Self { place }
    }
}

impl Engine for ServerEngine {
    fn run(&mut self, job: &Job, observer: &mut dyn JobObserver) -> Result<(), EngineFailure> {
        conversation::check_actions(job)?;
        let interruption = Interruption::default();
        let (sender, events) = channel();
        let outcome = thread::scope(|scope| {
            let teller = Teller(sender);
            let work = scope.spawn(|| drive(job, &self.place, teller, &interruption));
            relay(&events, observer, &interruption);
            work.join()
        });
        match outcome {
            Ok(done) => Ok(done?),
            Err(_) => {
                Err(EngineFailure { message: "driving the server: the driver panicked".to_owned(), hints: Vec::new() })
            }
        }
    }
}

/// Tells events to the thread that has the observer.
#[derive(Clone)]
pub(crate) struct Teller(Sender<EngineEvent>);

impl Teller {
    pub(crate) fn tell(&self, event: EngineEvent) {
        // The other end listens until the last teller is gone.
        let _ = self.0.send(event);
    }
}

/// Hands over events until nobody tells any more.
fn relay(events: &Receiver<EngineEvent>, observer: &mut dyn JobObserver, interruption: &Interruption) {
    loop {
        match events.recv_timeout(ASK_INTERVAL) {
            Ok(event) => observer.event(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if observer.is_interrupted() {
            interruption.interrupt();
        }
    }
}

fn drive(job: &Job, place: &ServerPlace, teller: Teller, interruption: &Interruption) -> Result<(), ServerError> {
    let runtime = open_runtime(job, place, interruption)?;
    Session::new(job, runtime, teller, interruption.clone()).run()
}

/// The runtime of an engine; nothing is started or asked yet.
fn open_runtime(job: &Job, place: &ServerPlace, interruption: &Interruption) -> Result<Box<dyn Runtime>, ServerError> {
    let interruption = interruption.clone();
    Ok(match job.engine {
        EngineKind::LlamaServer => Box::new(LlamaServer::open(job, place, interruption)?),
        EngineKind::LlamaCli => Box::new(LlamaCli::open(job, place, interruption)),
        EngineKind::OpenAi | EngineKind::Vllm | EngineKind::Sglang => Box::new(OpenAiRuntime::open(job, interruption)?),
        EngineKind::Ollama => Box::new(OllamaRuntime::open(job, place, interruption)?),
        EngineKind::LlamaCpp => return Err(ServerError::Embedded),
    })
}
