//! Does a job with a runtime that is a program of its own, and tells what happens.
//!
//! Work is done on threads of its own; the calling thread hands every event to the observer as it comes and asks it
//! whether to end.

mod conversation;
mod fill;
mod limit;
mod requests;
mod session;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use dwell_events::engine::{Engine, EngineEvent, EngineFailure, EngineKind, Job, JobObserver};

use crate::client::Runtime;
use crate::in_browser::BrowserRuntime;
use crate::llama_cli::LlamaCli;
use crate::llama_server::LlamaServer;
use crate::ollama::OllamaRuntime;
use crate::openai::{Extras, OpenAiRuntime};
use crate::{Interruption, ServerError, ServerPlace, command, sglang, vllm};

use session::Session;

/// How often the observer is asked whether to end while nothing happens.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Events that may wait for the observer; more stop the reading of answers, and so the server.
const WAITING_EVENTS: usize = 1024;

/// Fills a chat template with the message of a user; or says why it cannot.
pub type FillTemplate = fn(template: &str, text: &str) -> Result<String, String>;

/// An engine that is a program of its own.
pub struct ServerEngine {
    place: ServerPlace,
    fill_template: FillTemplate,
}

impl ServerEngine {
    /// An engine that works in this place and fills no templates.
    pub fn new(place: ServerPlace) -> Self {
        Self { place, fill_template: |_, _| Err("nobody can fill it here".to_owned()) }
    }

    /// The same with somebody who fills the template that a job may come with.
    pub fn filling_templates(self, fill_template: FillTemplate) -> Self {
        Self { fill_template, ..self }
    }
}

impl Engine for ServerEngine {
    fn run(&mut self, job: &Job, observer: &mut dyn JobObserver) -> Result<(), EngineFailure> {
        if job.engine.profile().takes_prompts {
            conversation::check_actions(job)?;
        }
        let interruption = Interruption::default();
        let (sender, events) = sync_channel(WAITING_EVENTS);
        let outcome = thread::scope(|scope| {
            let teller = Teller(sender);
            let work = scope.spawn(|| self.drive(job, teller, &interruption));
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

/// An event with the time at which it happened. Threads hand it on, and each may have to wait for a processor.
type Timed = (EngineEvent, u64);

/// Tells events to the thread that has the observer.
#[derive(Clone)]
pub(crate) struct Teller(SyncSender<Timed>);

impl Teller {
    /// Something happens now.
    pub(crate) fn tell(&self, event: EngineEvent) {
        self.tell_at(event, dwell_clock::monotonic_ns());
    }

    /// Something happened at this time.
    pub(crate) fn tell_at(&self, event: EngineEvent, time_ns: u64) {
        // The other end listens until the last teller is gone.
        let _ = self.0.send((event, time_ns));
    }
}

/// Hands over events until nobody tells any more.
fn relay(events: &Receiver<Timed>, observer: &mut dyn JobObserver, interruption: &Interruption) {
    loop {
        match events.recv_timeout(ASK_INTERVAL) {
            Ok((event, time_ns)) => observer.event_at(event, time_ns),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if observer.is_interrupted() {
            interruption.interrupt();
        }
    }
}

impl ServerEngine {
    /// Does a job with the driver of its engine. Besides the list of profiles, this is the one list of engines.
    fn drive(&self, job: &Job, teller: Teller, interruption: &Interruption) -> Result<(), ServerError> {
        let place = &self.place;
        let ask = |runtime: Box<dyn Runtime>| {
            Session::new(job, runtime, self.fill_template, teller.clone(), interruption.clone()).run()
        };
        let interruption = interruption.clone();
        let in_browser = |interruption| BrowserRuntime::open(job, place, teller.clone(), interruption);
        match job.engine {
            EngineKind::LlamaServer => ask(Box::new(LlamaServer::open(job, place, interruption)?)),
            EngineKind::LlamaCli => ask(Box::new(LlamaCli::open(job, place, interruption))),
            EngineKind::OpenAi => ask(Box::new(OpenAiRuntime::open(job, place, Extras::NONE, interruption)?)),
            EngineKind::Vllm => ask(Box::new(OpenAiRuntime::open(job, place, vllm::EXTRAS, interruption)?)),
            EngineKind::Sglang => ask(Box::new(OpenAiRuntime::open(job, place, sglang::EXTRAS, interruption)?)),
            EngineKind::Ollama => ask(Box::new(OllamaRuntime::open(job, place, interruption)?)),
            EngineKind::Wllama | EngineKind::TransformersJs | EngineKind::WebLlm => {
                ask(Box::new(in_browser(interruption)))
            }
            EngineKind::Command => command::run(job, place, &teller),
            EngineKind::LlamaCpp => Err(ServerError::Embedded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Times(Vec<u64>);

    impl JobObserver for Times {
        fn event(&mut self, _event: EngineEvent) {
            self.0.push(0);
        }

        fn event_at(&mut self, _event: EngineEvent, time_ns: u64) {
            self.0.push(time_ns);
        }
    }

    #[test]
    fn events_keep_their_time_however_late_they_are_handed_over() {
        let (sender, events) = sync_channel(WAITING_EVENTS);
        let teller = Teller(sender);
        let event = || EngineEvent::LoadProgress { fraction: 1.0 };
        teller.tell_at(event(), 5);
        teller.tell_at(event(), 3);
        drop(teller);
        let mut times = Times::default();
        relay(&events, &mut times, &Interruption::default());
        assert_eq!(times.0, [5, 3]);
    }
}
