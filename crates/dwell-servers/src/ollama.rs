//! Ollama: joined, or started as `ollama serve`.

mod api;
mod launch;
mod question;
mod shape;
mod store;

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use dwell_events::engine::{EngineKind, EngineOptions, Job, LoadedModel};
use dwell_events::llama_log::reported_buffers;
use dwell_events::server::{ReportedBuffer, RequestTimings, ServerDescription, ServerOptions, StartKind};
use dwell_host::{drop_from_page_cache, resident_in_page_cache};
use dwell_process::{ProcessLine, process_tree};
use serde_json::{Value, json};

use api::{Line, LoadedList, LoadedOne, ModelList, Shown, Version};

use crate::client::{Asked, Piece, Runtime};
use crate::http::{HttpClient, HttpError, Interruption};
use crate::processes::server_process;
use crate::program::{Program, Readiness, free_port, ready_within, wait_until_ready};
use crate::tracing::{joined_untraced, untraced_because};
use crate::{ServerError, ServerPlace};

const ENGINE: EngineKind = EngineKind::Ollama;
/// How long a model may take to be gone after it was unloaded.
const UNLOADED_WITHIN: Duration = Duration::from_secs(60);
const UNLOAD_POLL: Duration = Duration::from_millis(50);
/// With this line the runner's log of a model begins.
const LOAD_BEGINS: &str = "llama_model_loader: loaded meta data";

/// Ollama.
pub(crate) struct OllamaRuntime {
    server: ServerOptions,
    options: EngineOptions,
    place: ServerPlace,
    interruption: Interruption,
    /// Known from the beginning for a server that is joined, from the start of the program otherwise.
    client: Option<HttpClient>,
    program: Option<Program>,
    /// The process that answers, if it is on this machine.
    pid: Option<u32>,
    model: Option<ChosenModel>,
    /// How much of the model's file was in the page cache before it was loaded.
    cached_bytes: Option<u64>,
}

/// The model that is asked for.
#[derive(Clone, Debug)]
struct ChosenModel {
    name: String,
    shown: Shown,
    was_loaded: bool,
    is_made_here: bool,
}

impl OllamaRuntime {
    /// A server that runs already, or one that is to be started; nothing is asked yet.
    pub(crate) fn open(job: &Job, place: &ServerPlace, interruption: Interruption) -> Result<Self, ServerError> {
        if job.options.ignore_end {
            return Err(ServerError::NotOffered { engine: ENGINE, option: "--ignore-end" });
        }
        let mut runtime = Self {
            server: job.server.clone(),
            options: job.options.clone(),
            place: place.clone(),
            interruption,
            client: None,
            program: None,
            pid: None,
            model: None,
            cached_bytes: None,
        };
        if let Some(url) = &job.server.url {
            runtime.client = Some(runtime.client_at(url)?);
        } else if job.options.kv_type_k != job.options.kv_type_v {
            let option = "a --kv-type-v that differs from --kv-type-k";
            return Err(ServerError::NotOffered { engine: ENGINE, option });
        }
        Ok(runtime)
    }

    fn client_at(&self, url: &str) -> Result<HttpClient, HttpError> {
        HttpClient::new(ENGINE, url, self.server.api_key_variable.as_deref(), self.interruption.clone())
    }

    fn client(&self) -> Result<&HttpClient, ServerError> {
        self.client.as_ref().ok_or(ServerError::NoAddress { engine: ENGINE })
    }

    fn wait_until_it_answers(&mut self) -> Result<(), ServerError> {
        let client = self.client()?.clone();
        if self.program.is_none() {
            client.get_json::<Version>("/api/version")?;
            self.pid = server_process(client.url(), self.server.pid)?;
            return Ok(());
        }
        let within = ready_within(&self.server);
        wait_until_ready(self.program.as_mut(), ENGINE, within, &self.interruption, || {
            match client.get_json::<Version>("/api/version") {
                Ok(_) => Ok(Readiness::Ready),
                Err(error) if error.is_interrupted() => Err(error.into()),
                Err(error) => Ok(Readiness::NotYet(error.to_string())),
            }
        })
    }

    /// Finds out which model is asked for, and makes it of the given file if it has no name.
    fn choose_model(&mut self) -> Result<ChosenModel, ServerError> {
        if let Some(model) = &self.model {
            return Ok(model.clone());
        }
        let client = self.client()?;
        let (name, is_made_here) = match &self.server.model_name {
            Some(name) => (name.clone(), false),
            None if self.options.model.is_file() => store::make_model(client, &self.options.model)?,
            None => (self.only_model()?, false),
        };
        let shown: Shown =
            client.post_json("/api/show", &json!({"model": name})).map_err(|error| self.named(&name, error))?;
        let was_loaded = self.loaded(&name)?.is_some();
        Ok(self.model.insert(ChosenModel { name, shown, was_loaded, is_made_here }).clone())
    }

    fn only_model(&self) -> Result<String, ServerError> {
        let mut listed = self.client()?.get_json::<ModelList>("/api/tags")?.names();
        match listed.pop() {
            Some(only) if listed.is_empty() => Ok(only),
            last => {
                listed.extend(last);
                Err(ServerError::NoModelName { engine: ENGINE, listed })
            }
        }
    }

    /// What `/api/ps` says of the model, if it is loaded.
    fn loaded(&self, name: &str) -> Result<Option<LoadedOne>, ServerError> {
        let list: LoadedList = self.client()?.get_json("/api/ps")?;
        Ok(list.models.into_iter().find(|model| api::is_same_name(&model.name, name)))
    }

    /// A refusal for want of the model says so.
    fn named(&self, name: &str, error: HttpError) -> ServerError {
        let HttpError::Status { status: 404, said, .. } = error else { return error.into() };
        let listed = self.client().ok().and_then(|client| client.get_json::<ModelList>("/api/tags").ok());
        let listed = listed.map(|list| list.names()).unwrap_or_default();
        ServerError::ModelNotFound { engine: ENGINE, name: name.to_owned(), said, listed }
    }

    fn read_answer(
        &self,
        (path, body): (&str, Value),
        timings: &mut RequestTimings,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<(), ServerError> {
        let name = body["model"].as_str().unwrap_or_default();
        let mut stream = self.client()?.post_lines(path, &body).map_err(|error| self.named(name, error))?;
        while let Some(arrived) = stream.next_item()? {
            let line: Line = stream.json(arrived.number, &arrived.item)?;
            if let Some(said) = &line.error {
                return Err(stream.broken_off(arrived.number, said).into());
            }
            if line.done {
                *timings = line.timings();
            }
            let is_last = line.done;
            if let Some(piece) = line.into_piece(arrived.arrived_ns) {
                stream.note_token();
                if on_piece(piece).is_break() {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
        Err(stream.cut_off("the stream ended without its last line").into())
    }

    /// The file of the weights in Ollama's store, if that is on this machine.
    fn file_of(&self, model: &ChosenModel) -> Option<PathBuf> {
        self.pid.and(model.shown.model_path()).filter(|path| path.is_file())
    }

    /// What is loaded is the store's own copy of a file, which a cold start reads from the disk.
    fn look_at_page_cache(&mut self, model: &ChosenModel) {
        let Some(path) = self.file_of(model) else { return };
        if self.server.start == StartKind::Cold {
            // Only what is written can be dropped. What stays is seen below.
            let _ = File::open(&path).and_then(|file| file.sync_all()).and_then(|()| drop_from_page_cache(&path));
        }
        self.cached_bytes = resident_in_page_cache(&path).ok().map(|(resident_bytes, _)| resident_bytes);
    }

    /// Whether a runner of this model is at work; of any, if its file is not known.
    fn has_runner(&self, model: &ChosenModel) -> bool {
        let path = model.shown.model_path();
        let file_name = path.as_deref().and_then(Path::file_name);
        let is_given =
            |line: &ProcessLine| line.command_line.iter().any(|word| Path::new(word).file_name() == file_name);
        self.tree().iter().skip(1).any(|line| file_name.is_none() || is_given(line))
    }

    /// The server's process and those of its runners.
    fn tree(&self) -> Vec<ProcessLine> {
        self.pid.map(process_tree).unwrap_or_default()
    }
}

impl Runtime for OllamaRuntime {
    fn start(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        if self.server.url.is_some() {
            return Ok(());
        }
        let port = free_port()?;
        self.client = Some(self.client_at(&format!("http://127.0.0.1:{port}"))?);
        let program = Program::start(&launch::command(&self.server, &self.options, port)?, &self.place)?;
        self.pid = Some(program.pid());
        self.program = Some(program);
        Ok(())
    }

    fn load(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        self.wait_until_it_answers()?;
        let model = self.choose_model()?;
        self.look_at_page_cache(&model);
        let body = question::request(&self.options, &model.name);
        self.client()?
            .post_slow_json::<Value>("/api/generate", &body)
            .map(drop)
            .map_err(|error| self.named(&model.name, error))
    }

    fn facts(&mut self) -> Result<ServerDescription, ServerError> {
        let model = self.choose_model()?;
        let client = self.client()?;
        let version: Version = client.get_json("/api/version")?;
        let loaded = self.loaded(&model.name)?;
        let runner = shape::RunnerSettings::of(&self.tree());
        let untraced_because = match &self.program {
            Some(program) => untraced_because(program.pid(), &self.place),
            None => Some(joined_untraced(self.pid)),
        };
        let command_line = self.program.as_ref().map(|program| program.command_line().to_vec());
        let mut facts = ServerDescription {
            version: Some(format!("ollama {}", version.version)),
            url: Some(client.url().to_owned()),
            is_started_here: self.program.is_some(),
            command_line: command_line.unwrap_or_default(),
            model_name: Some(model.name.clone()),
            model_path: self.file_of(&model),
            context_length: loaded.as_ref().and_then(|loaded| loaded.context_length),
            slots: runner.slots,
            shares_context: runner.slots.map(|_| false),
            kv_type_k: runner.kv_type_k,
            kv_type_v: runner.kv_type_v,
            untraced_because,
            was_loaded: Some(model.was_loaded),
            ..ServerDescription::default()
        };
        facts.kv_bytes_per_token =
            shape::kv_bytes_per_token(&model.shown, facts.kv_type_k.as_deref(), facts.kv_type_v.as_deref());
        facts.reported = model.shown.reported();
        facts.reported.extend(loaded.iter().flat_map(LoadedOne::reported));
        let cached = self.cached_bytes.map(|bytes| ("model_file_cached_bytes".to_owned(), bytes.to_string()));
        facts.reported.extend(cached);
        if model.is_made_here {
            facts.reported.insert("model_made_of".to_owned(), self.options.model.display().to_string());
        }
        Ok(facts)
    }

    fn model(&mut self) -> LoadedModel {
        let Ok(model) = self.choose_model() else { return LoadedModel::default() };
        let loaded = self.loaded(&model.name).ok().flatten();
        let context_per_sequence = loaded.and_then(|loaded| loaded.context_length).unwrap_or_default();
        let slots = shape::RunnerSettings::of(&self.tree()).slots.unwrap_or(1);
        LoadedModel {
            context_length: context_per_sequence.saturating_mul(slots),
            context_per_sequence,
            threads: self.options.threads,
            ..model.shown.model()
        }
    }

    fn processes(&mut self) -> Vec<(u32, &'static str)> {
        let role = |line: &ProcessLine| if Some(line.pid) == self.pid { "server" } else { "runner" };
        self.tree().iter().map(|line| (line.pid, role(line))).collect()
    }

    fn generate(
        &mut self,
        asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        let model = self.choose_model()?.name;
        let mut timings = RequestTimings::default();
        match self.read_answer(question::question(&model, asked), &mut timings, on_piece) {
            Err(error) if !error.is_interrupted() => Err(error),
            _ => Ok(timings),
        }
    }

    fn another(&self) -> Option<Box<dyn Runtime>> {
        Some(Box::new(Self {
            server: self.server.clone(),
            options: self.options.clone(),
            place: self.place.clone(),
            interruption: self.interruption.clone(),
            client: self.client.clone(),
            program: None,
            pid: self.pid,
            model: self.model.clone(),
            cached_bytes: None,
        }))
    }

    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        let printed = self.program.as_ref().map(Program::printed).unwrap_or_default();
        let last_load = printed.rfind(LOAD_BEGINS).map_or("", |begin| &printed[begin..]);
        let buffers = reported_buffers(last_load);
        if !buffers.is_empty() {
            return buffers;
        }
        let loaded = self.model.as_ref().and_then(|model| self.loaded(&model.name).ok().flatten());
        loaded.map(|loaded| loaded.buffers()).unwrap_or_default()
    }

    fn unload(&mut self) -> Result<bool, ServerError> {
        self.wait_until_it_answers()?;
        let model = self.choose_model()?;
        let body = json!({"model": model.name, "keep_alive": 0});
        self.client()?
            .post_slow_json::<Value>("/api/generate", &body)
            .map_err(|error| self.named(&model.name, error))?;
        let begin = Instant::now();
        loop {
            // The list is empty before the runner has given its memory back.
            let is_gone = self.loaded(&model.name)?.is_none() && !self.has_runner(&model);
            if is_gone {
                self.model = None;
                return Ok(true);
            }
            if self.interruption.is_interrupted() {
                return Err(ServerError::Interrupted { doing: "waiting for the model to be unloaded" });
            }
            if begin.elapsed() > UNLOADED_WITHIN {
                return Ok(false);
            }
            thread::sleep(UNLOAD_POLL);
        }
    }

    fn death(&mut self) -> Option<String> {
        self.program.as_mut().and_then(Program::death)
    }

    fn stop(&mut self) {
        if let Some(program) = &mut self.program {
            program.stop();
        }
    }
}
