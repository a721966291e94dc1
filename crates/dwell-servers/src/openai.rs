//! Servers with the API of OpenAI; vLLM and SGLang are such, and say more. vLLM can be started, too.

mod answer;
mod question;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use dwell_events::engine::{EngineOptions, Job, LoadedModel};
use dwell_events::server::{Api, ReportedBuffer, RequestTimings, ServerDescription, ServerOptions};
use dwell_process::process_line;
use serde::Deserialize;

use answer::Chunk;
use question::Dialect;
pub(crate) use question::messages;

use crate::client::{Asked, Piece, Runtime};
use crate::http::{HttpClient, HttpError, Interruption};
use crate::processes::server_process;
use crate::program::{Program, ProgramCommand, Readiness, free_port, ready_within, wait_until_ready};
use crate::{ServerError, ServerPlace};

/// Marks the end of a stream.
const DONE: &str = "[DONE]";

/// A server with the API of OpenAI.
pub(crate) struct OpenAiRuntime {
    job: Job,
    place: ServerPlace,
    interruption: Interruption,
    /// Known from the beginning for a server that is joined, from the start of the program otherwise.
    client: Option<HttpClient>,
    /// The program, if it was started for the run.
    started: Option<Program>,
    /// The process that answers, if it is on this machine.
    pid: Option<u32>,
    /// The model to ask for; found out when the server is first asked.
    model: Option<ModelCard>,
    dialect: Dialect,
    extras: Extras,
}

/// The command that starts a server for a job, at a port.
type Launch = fn(&Job, u16) -> Result<ProgramCommand, ServerError>;

/// What a server says outside the API of OpenAI, and whether dwell can start it.
#[derive(Clone, Copy)]
pub(crate) struct Extras {
    /// Adds what it says of itself.
    pub(crate) add_facts: fn(&Reached<'_>, &mut ServerDescription) -> Result<(), ServerError>,
    /// Memory that it says it has allocated.
    pub(crate) buffers: fn(&Reached<'_>) -> Vec<ReportedBuffer>,
    /// The command that starts it at a port of this machine; none if it has to run already.
    pub(crate) launch: Option<Launch>,
    /// Why its computations are never recorded.
    pub(crate) untraced_because: &'static str,
}

impl Extras {
    /// It says nothing besides.
    pub(crate) const NONE: Self = Self {
        add_facts: |_, _| Ok(()),
        buffers: |_| Vec::new(),
        launch: None,
        untraced_because: "a server of this engine is joined, not started by dwell",
    };
}

/// A server that answers.
pub(crate) struct Reached<'a> {
    pub(crate) client: &'a HttpClient,
    pub(crate) card: &'a ModelCard,
    /// Its process, if it is on this machine.
    pub(crate) pid: Option<u32>,
}

impl Reached<'_> {
    /// The folder that it was started in, to which paths are relative that it tells.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/cwd", self.pid?)).ok()
    }
}

/// What `/v1/models` says of a model.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ModelCard {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) owned_by: Option<String>,
    /// Where vLLM and SGLang have the model from.
    #[serde(default)]
    pub(crate) root: Option<String>,
    #[serde(default)]
    pub(crate) max_model_len: Option<u32>,
    /// What llama.cpp says besides.
    #[serde(default)]
    meta: Option<LlamaMeta>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LlamaMeta {
    n_ctx: Option<u32>,
    n_params: Option<u64>,
    n_vocab: Option<u32>,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelCard>,
}

impl OpenAiRuntime {
    /// A server that runs already, or one that is to be started; nothing is asked yet.
    pub(crate) fn open(
        job: &Job,
        place: &ServerPlace,
        extras: Extras,
        interruption: Interruption,
    ) -> Result<Self, ServerError> {
        let mut opened = Self {
            job: job.clone(),
            place: place.clone(),
            interruption,
            client: None,
            started: None,
            pid: None,
            model: None,
            dialect: Dialect::of(job.engine),
            extras,
        };
        match &job.server.url {
            Some(url) => opened.client = Some(opened.client_at(url)?),
            None if extras.launch.is_none() => return Err(opened.no_address()),
            None => {}
        }
        Ok(opened)
    }

    fn client_at(&self, url: &str) -> Result<HttpClient, HttpError> {
        let key_variable = self.job.server.api_key_variable.as_deref();
        HttpClient::new(self.job.engine, url, key_variable, self.interruption.clone())
    }

    fn client(&self) -> Result<&HttpClient, ServerError> {
        self.client.as_ref().ok_or_else(|| self.no_address())
    }

    fn no_address(&self) -> ServerError {
        ServerError::NoAddress { engine: self.job.engine }
    }

    /// Waits until a server that was started answers.
    fn wait_until_it_answers(&mut self) -> Result<(), ServerError> {
        let (client, within) = (self.client()?.clone(), ready_within(&self.job.server));
        wait_until_ready(self.started.as_mut(), self.job.engine, within, &self.interruption, || {
            match client.get_any("/health") {
                Ok(answer) if answer.status == 200 => Ok(Readiness::Ready),
                Ok(answer) => Ok(Readiness::NotYet(format!("/health says {}", answer.status))),
                Err(error) if error.is_interrupted() => Err(error.into()),
                Err(error) => Ok(Readiness::NotYet(error.to_string())),
            }
        })
    }

    /// How the process was started that answers, where that can be seen.
    fn command_line(&self) -> Vec<String> {
        match &self.started {
            Some(program) => program.command_line().to_vec(),
            None => self.pid.and_then(process_line).map(|line| line.command_line).unwrap_or_default(),
        }
    }

    /// The model to ask for: the named one, or the only one.
    fn find_model(&self, server: &ServerOptions) -> Result<ModelCard, ServerError> {
        let listed = match self.client()?.get_json::<ModelList>("/v1/models") {
            Ok(list) => list.data,
            // Some servers have no list; then the name has to be given.
            Err(HttpError::Status { status: 404 | 405, .. }) if server.model_name.is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let names = || listed.iter().map(|card| card.id.clone()).collect();
        match (&server.model_name, listed.as_slice()) {
            (Some(name), _) => {
                let card = listed.iter().find(|card| card.id == *name).cloned();
                Ok(card.unwrap_or_else(|| ModelCard { id: name.clone(), ..ModelCard::default() }))
            }
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(ServerError::NoModelName { engine: self.job.engine, listed: names() }),
        }
    }

    fn model_card(&mut self, server: &ServerOptions) -> Result<ModelCard, ServerError> {
        if let Some(card) = &self.model {
            return Ok(card.clone());
        }
        let card = self.find_model(server)?;
        Ok(self.model.insert(card).clone())
    }

    /// Sends the question, in other words if the server does not know a part of it.
    fn ask(&mut self, model: &str, asked: &Asked<'_>) -> Result<crate::http::EventStream, ServerError> {
        let path = match asked.server.api {
            Api::Completion => "/v1/completions",
            Api::Chat => "/v1/chat/completions",
        };
        loop {
            let error = match self.client()?.post_events(path, &self.dialect.question(model, asked)) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if self.dialect.learn_from(&error) {
                continue;
            }
            return Err(match error {
                HttpError::Status { status: 404, said, .. } if said.contains("model") => self.not_found(model, said),
                error => error.into(),
            });
        }
    }

    fn not_found(&self, model: &str, said: String) -> ServerError {
        let listed = self.client.as_ref().and_then(|client| client.get_json::<ModelList>("/v1/models").ok());
        let listed = listed.map(|list| list.data).unwrap_or_default();
        ServerError::ModelNotFound {
            engine: self.job.engine,
            name: model.to_owned(),
            said,
            listed: listed.into_iter().map(|card| card.id).collect(),
        }
    }
}

impl Runtime for OpenAiRuntime {
    fn start(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        let Some(launch) = self.extras.launch.filter(|_| self.job.server.url.is_none()) else { return Ok(()) };
        let port = free_port()?;
        let program = Program::start(&launch(&self.job, port)?, &self.place)?;
        self.client = Some(self.client_at(&format!("http://127.0.0.1:{port}"))?);
        self.pid = Some(program.pid());
        self.started = Some(program);
        Ok(())
    }

    fn load(&mut self, asked: &Asked<'_>) -> Result<(), ServerError> {
        if self.started.is_some() {
            self.wait_until_it_answers()?;
            return self.model_card(asked.server).map(drop);
        }
        self.model_card(asked.server)?;
        self.pid = server_process(self.client()?.url(), asked.server.pid)?;
        Ok(())
    }

    fn facts(&mut self) -> Result<ServerDescription, ServerError> {
        let card = self.model.clone().unwrap_or_default();
        let mut facts = ServerDescription {
            url: Some(self.client()?.url().to_owned()),
            is_started_here: self.started.is_some(),
            command_line: self.command_line(),
            model_name: Some(card.id.clone()),
            context_length: card.max_model_len.or(card.meta.as_ref().and_then(|meta| meta.n_ctx)),
            untraced_because: Some(self.extras.untraced_because.to_owned()),
            ..ServerDescription::default()
        };
        facts.reported.extend(card.owned_by.clone().map(|owner| ("owned_by".to_owned(), owner)));
        facts.reported.extend(card.root.clone().map(|root| ("root".to_owned(), root)));
        (self.extras.add_facts)(&Reached { client: self.client()?, card: &card, pid: self.pid }, &mut facts)?;
        Ok(facts)
    }

    fn model(&mut self) -> LoadedModel {
        let card = self.model.clone().unwrap_or_default();
        let meta = card.meta.unwrap_or_default();
        LoadedModel {
            description: card.id,
            parameters: meta.n_params.unwrap_or_default(),
            size_bytes: meta.size.unwrap_or_default(),
            vocabulary: meta.n_vocab.unwrap_or_default(),
            context_per_sequence: card.max_model_len.or(meta.n_ctx).unwrap_or_default(),
            ..LoadedModel::default()
        }
    }

    fn processes(&mut self) -> Vec<(u32, &'static str)> {
        self.pid.map(|pid| (pid, "server")).into_iter().collect()
    }

    fn generate(
        &mut self,
        asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError> {
        let model = self.model_card(asked.server)?.id;
        let mut timings = RequestTimings::default();
        let outcome = self.ask(&model, asked).and_then(|mut stream| {
            let mut has_finished = false;
            let mut prompt_ids = Vec::new();
            while let Some(event) = stream.next_item()? {
                if event.item.data == DONE {
                    return Ok(());
                }
                let mut chunk: Chunk = stream.json(event.number, &event.item.data)?;
                if let Some(said) = chunk.error_said() {
                    return Err(stream.broken_off(event.number, &said).into());
                }
                chunk.add_timings(&mut timings);
                has_finished |= chunk.is_last();
                prompt_ids.extend(chunk.take_prompt_ids());
                if let Some(piece) = chunk.into_piece(event.arrived_ns) {
                    stream.note_token();
                    if on_piece(Piece { prompt_ids: std::mem::take(&mut prompt_ids), ..piece }).is_break() {
                        return Ok(());
                    }
                }
            }
            if has_finished { Ok(()) } else { Err(stream.cut_off("the stream ended without its last event").into()) }
        });
        match outcome {
            Err(error) if error.is_interrupted() => Ok(timings),
            outcome => outcome.map(|()| timings),
        }
    }

    fn another(&self) -> Option<Box<dyn Runtime>> {
        Some(Box::new(Self {
            job: self.job.clone(),
            place: self.place.clone(),
            interruption: self.interruption.clone(),
            client: self.client.clone(),
            started: None,
            pid: self.pid,
            model: self.model.clone(),
            dialect: self.dialect,
            extras: self.extras,
        }))
    }

    fn count_tokens(&mut self, asked: &Asked<'_>) -> Result<Option<u64>, ServerError> {
        #[derive(Deserialize)]
        struct Tokenized {
            count: u64,
        }
        if !self.is_counting_cheap() {
            return Ok(None);
        }
        let model = self.model_card(asked.server)?.id;
        let tokenized: Tokenized = self.client()?.post_json("/tokenize", &question::to_tokenize(&model, asked))?;
        Ok(Some(tokenized.count))
    }

    fn is_counting_cheap(&self) -> bool {
        // Outside the API of OpenAI.
        self.job.engine.profile().counts_tokens
    }

    fn metrics(&mut self) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
        if self.job.engine.profile().publishes_metrics {
            crate::prometheus::published(self.client()?)
        } else {
            Ok(None)
        }
    }

    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        let (Some(client), Some(card)) = (&self.client, &self.model) else { return Vec::new() };
        (self.extras.buffers)(&Reached { client, card, pid: self.pid })
    }

    fn death(&mut self) -> Option<String> {
        self.started.as_mut().and_then(Program::death)
    }

    fn stop(&mut self) {
        if let Some(program) = &mut self.started {
            program.stop();
        }
    }
}

/// The seed of a request: each conversation draws its own way, as with the embedded engine.
pub(crate) fn seed_of(options: &EngineOptions, sequence: i32) -> u32 {
    options.seed.wrapping_add_signed(sequence)
}
