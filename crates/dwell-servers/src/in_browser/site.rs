//! The server of the page, its runtime and its model, for one run.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use dwell_events::engine::{EngineEvent, EngineKind, Job};
use dwell_packages::npm::NpmSettings;
use dwell_web::{GgufFacts, Runtime, Stopper, WebModel, WebOptions, WebServer};

use crate::driver::Teller;
use crate::{ServerError, ServerPlace};

/// The page that is driven.
const PAGE: &str = "run.html";

/// A server that runs; it ends with this value.
pub(super) struct Site {
    address: String,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    gguf: Option<GgufFacts>,
}

impl Site {
    /// Checks the model, has the runtime's packages in the cache, and begins to serve.
    pub(super) fn open(job: &Job, place: &ServerPlace, teller: &Teller) -> Result<Self, ServerError> {
        let runtime = runtime_of(job.engine).ok_or(ServerError::Embedded)?;
        let model = WebModel::open(&model_path(job))?;
        if model.runtime() != runtime {
            let found = format!("a model for {}", model.runtime().name());
            return Err(ServerError::OtherRuntime { engine: job.engine, found, path: model_path(job) });
        }
        let progress = &mut |_: &_, done_bytes: u64, total_bytes: Option<u64>| {
            let fraction = total_bytes.map_or(0.0, |total_bytes| done_bytes as f32 / total_bytes.max(1) as f32);
            teller.tell(EngineEvent::LoadProgress { fraction });
        };
        let cache = place.cache_dir.join("web");
        let files = runtime.default_release().fetch(&NpmSettings::of_this_machine(), &cache, progress)?;
        let gguf = model.gguf();
        let options = WebOptions { port: 0, runtimes: vec![files], models: vec![model] };
        let server = WebServer::bind(options)?;
        let (address, stopper) = (server.address(), server.stopper());
        // Whoever asks it sees that it does not answer; why is told there.
        let thread = thread::spawn(move || drop(server.run()));
        Ok(Self { address, stopper, thread: Some(thread), gguf })
    }

    /// What the file of the model says, if it is one.
    pub(super) fn gguf(&self) -> Option<GgufFacts> {
        self.gguf
    }

    /// Address of the page.
    pub(super) fn page_url(&self) -> String {
        format!("{}{PAGE}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn runtime_of(engine: EngineKind) -> Option<Runtime> {
    Runtime::ALL.into_iter().find(|runtime| runtime.name() == engine.name())
}

/// A file or folder; in experiments a folder is given by name.
fn model_path(job: &Job) -> PathBuf {
    let named = job.server.model_name.as_deref().map(PathBuf::from);
    let is_given = !job.options.model.as_os_str().is_empty();
    if is_given { job.options.model.clone() } else { named.unwrap_or_default() }
}
