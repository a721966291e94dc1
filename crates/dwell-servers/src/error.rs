//! Why a runtime could not be started, reached or asked.

use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_events::engine::{EngineFailure, EngineKind};

use dwell_browser::{BrowserError, NO_SANDBOX};
use dwell_packages::npm::NpmError;
use dwell_web::WebError;

use crate::http::HttpError;
use crate::prometheus::PrometheusError;

/// Most names that a message lists.
const NAMES_SHOWN: usize = 8;

/// Why a runtime could not be started, reached or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A server could not be asked, or its answer not be understood.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// What a server publishes is no page of figures.
    #[error(transparent)]
    Figures(#[from] PrometheusError),
    /// The browser could not be started or asked.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// The packages of a runtime could not be had.
    #[error(transparent)]
    Packages(#[from] NpmError),
    /// The page, its runtime or its model cannot be served.
    #[error(transparent)]
    Site(#[from] WebError),
    /// The page could not do what it was asked for.
    #[error("{doing}: {said}")]
    Page {
        /// What was being done.
        doing: String,
        /// What the page said, or what became of it.
        said: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The model is one of another runtime.
    #[error("opening the model: found {found}, one for {} is needed: {path:?}", .engine.name())]
    OtherRuntime {
        /// The engine.
        engine: EngineKind,
        /// What was found.
        found: String,
        /// The model.
        path: PathBuf,
    },
    /// A server that is joined has to have an address.
    #[error("joining {}: found no address of a server, and one is needed", .engine.name())]
    NoAddress {
        /// The engine.
        engine: EngineKind,
    },
    /// The server has several models, or none.
    #[error("choosing a model of {}: found {}, and a name is needed", .engine.name(), names_in_words(.listed))]
    NoModelName {
        /// The engine.
        engine: EngineKind,
        /// The models that it has.
        listed: Vec<String>,
    },
    /// The server does not have the model.
    #[error("asking {} for the model {name:?}: {said}; it has {}", .engine.name(), names_in_words(.listed))]
    ModelNotFound {
        /// The engine.
        engine: EngineKind,
        /// The name that was asked for.
        name: String,
        /// What the server says about it.
        said: String,
        /// The models that it has.
        listed: Vec<String>,
    },
    /// The API has nothing for what is asked.
    #[error("checking the options: {} does not offer {option}", .engine.name())]
    NotOffered {
        /// The engine.
        engine: EngineKind,
        /// The option.
        option: &'static str,
    },
    /// Waiting was ended from outside.
    #[error("{doing}: interrupted")]
    Interrupted {
        /// What was being done.
        doing: &'static str,
    },
    /// None of the engine's programs is there.
    #[error("looking for a program of {}: found none of {} in {}", .engine.name(), .names.join(", "), .places.join(", "))]
    NoProgram {
        /// The engine.
        engine: EngineKind,
        /// Names that were looked for.
        names: Vec<String>,
        /// Folders that were looked into.
        places: Vec<String>,
    },
    /// The given program is not one.
    #[error("starting {}: {found}, a program is needed: {program:?}", .engine.name())]
    NotAProgram {
        /// The engine.
        engine: EngineKind,
        /// What is there instead.
        found: String,
        /// The program.
        program: PathBuf,
    },
    /// The program could not be started.
    #[error("starting {}: {source}: {program:?}", .engine.name())]
    Spawn {
        /// The engine.
        engine: EngineKind,
        /// What the system said.
        source: io::Error,
        /// The program.
        program: PathBuf,
    },
    /// No port is free, or the log cannot be written.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The model's file is no model.
    #[error("opening the model: {found}, a GGUF file is needed: {path:?}")]
    Model {
        /// What was found.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// The program ended before its work was done.
    #[error("{doing}: {how}")]
    Died {
        /// What was being done.
        doing: &'static str,
        /// How it ended, with its last words.
        how: String,
    },
    /// The server did not get ready in time.
    #[error("{} did not become ready within {waited_s} s: {state}", .engine.name())]
    NotReady {
        /// The engine.
        engine: EngineKind,
        /// How long it was waited for.
        waited_s: u64,
        /// What it said last.
        state: String,
    },
    /// The process behind an address cannot be seen.
    #[error("looking for the process that listens at {url}: {found}")]
    ProcessHidden {
        /// The address.
        url: String,
        /// What was found.
        found: String,
    },
    /// The given process is not there.
    #[error("looking for the server's process: there is no process {pid}")]
    NoProcess {
        /// The process id.
        pid: u32,
    },
    /// The job asks for something that this engine cannot do.
    #[error("checking action {action}: {found}; {} {needed}", .engine.name())]
    Action {
        /// Number of the action, from 1.
        action: usize,
        /// What it asks for.
        found: &'static str,
        /// The engine.
        engine: EngineKind,
        /// What the engine can do instead.
        needed: &'static str,
    },
    /// A setting that this program has no option for.
    #[error("starting {}: {wanted}, and this version has no option for it: {program:?}", .engine.name())]
    NoOption {
        /// The engine.
        engine: EngineKind,
        /// What was asked for.
        wanted: String,
        /// The program.
        program: PathBuf,
    },
    /// The state that a run is to begin in cannot be reached.
    #[error("preparing a cold start: {} at {url} cannot unload its model", .engine.name())]
    CannotUnload {
        /// The engine.
        engine: EngineKind,
        /// The address.
        url: String,
    },
    /// Several requests are to be answered side by side, and cannot be.
    #[error("generating {sequences} sequences side by side: {} answers one request at a time", .engine.name())]
    OneAtATime {
        /// The engine.
        engine: EngineKind,
        /// Sequences asked for.
        sequences: usize,
    },
    /// A conversation is to be continued by a program that answers one message.
    #[error("asking by chat: there are {turns} turns, {} answers the first message only", .engine.name())]
    OneTurn {
        /// The engine.
        engine: EngineKind,
        /// Turns of the conversation.
        turns: usize,
    },
    /// The chat template that dwell fills cannot be filled.
    #[error("wrapping the prompt in the model's chat template: {reason}")]
    Template {
        /// Why.
        reason: String,
    },
    /// The program only answers messages.
    #[error("asking for the continuation of a text: this program only answers messages: {program:?}")]
    ChatOnly {
        /// The program.
        program: PathBuf,
    },
    /// The embedded engine is none of this crate's.
    #[error("opening the runtime: the embedded engine is no server")]
    Embedded,
    /// A prompt cannot be made as long as wanted.
    #[error("filling a prompt to {wanted} tokens: {found}")]
    Fill {
        /// Tokens that it is to have.
        wanted: u32,
        /// What was found.
        found: String,
    },
    /// A prompt does not fit.
    #[error("{said}")]
    ContextTooSmall {
        /// What was asked and what the server says.
        said: String,
    },
}

impl ServerError {
    /// Whether nothing failed and waiting was ended from outside.
    pub fn is_interrupted(&self) -> bool {
        match self {
            ServerError::Interrupted { .. } => true,
            ServerError::Http(error) => error.is_interrupted(),
            ServerError::Browser(error) => error.is_interrupted(),
            _ => false,
        }
    }
}

impl Hint for ServerError {
    fn hints(&self) -> Vec<String> {
        let hint = |text: &str| vec![text.to_owned()];
        match self {
            ServerError::Http(error) => error.hints(),
            ServerError::Browser(error) => browser_hints(error),
            ServerError::Packages(error) => error.hints(),
            ServerError::Site(error) => error.hints(),
            ServerError::Page { hint: remedy, .. } => remedy.iter().cloned().collect(),
            ServerError::NoAddress { .. } => hint("start it and give its address: --url http://HOST:PORT"),
            ServerError::NoModelName { listed, .. } => {
                hint(&format!("name one: --model-name {}", listed.first().map_or("NAME", String::as_str)))
            }
            ServerError::ModelNotFound { engine, name, listed, .. } => missing_model_hints(*engine, name, listed),
            ServerError::NotOffered { .. } => {
                hint("use an engine that offers it: --engine llama_server, llama_cli or llama_cpp")
            }
            ServerError::NoProgram { engine, .. } => no_program_hints(*engine),
            ServerError::NotAProgram { engine, program, .. } | ServerError::Spawn { engine, program, .. } => {
                not_a_program_hints(*engine, program)
            }
            ServerError::NotReady { .. } => hint("give it more time: --ready-secs SECONDS"),
            ServerError::ProcessHidden { .. } => hint("name the process: --server-pid PID"),
            ServerError::NoProcess { .. } => hint("list the processes: ps -ef"),
            ServerError::Action { .. } => hint("use the embedded engine: --engine llama_cpp"),
            ServerError::CannotUnload { .. } => hint("omit --url: dwell then starts a server for the run"),
            ServerError::OneAtATime { .. } => {
                hint("use an engine that serves several sequences: --engine llama_server")
            }
            ServerError::OneTurn { .. } => hint("use the server: --engine llama_server"),
            ServerError::Template { .. } => vec![
                "let the server apply its own template: --api chat, or `server: {api: chat}` in an experiment"
                    .to_owned(),
                "or send the text as it is: --api completion".to_owned(),
            ],
            ServerError::ChatOnly { .. } => vec![
                "ask by chat: --api chat".to_owned(),
                "or use the program for texts: --program llama-completion, or `server: {program: llama-completion}` in an experiment"
                    .to_owned(),
            ],
            ServerError::ContextTooSmall { .. } => hint("ask for a longer context: --context-length N"),
            _ => Vec::new(),
        }
    }
}

/// How a program is named: experiments have no options.
const PROGRAM_OPTION: &str = "--program PATH, or `server: {program: PATH}` in an experiment";

/// Chromium's sandbox needs user namespaces, which containers and some distributions do not give.
fn browser_hints(error: &BrowserError) -> Vec<String> {
    let is_sandbox = error.to_string().to_lowercase().contains("sandbox");
    is_sandbox.then(|| format!("start it without its sandbox: --server-arg={NO_SANDBOX}")).into_iter().collect()
}

fn no_program_hints(engine: EngineKind) -> Vec<String> {
    if engine.profile().is_in_browser {
        return vec![
            "install Chromium: apt-get install chromium".to_owned(),
            "or give its place: --program PATH, or the variable DWELL_CHROMIUM".to_owned(),
        ];
    }
    let join = engine.profile().port.map(|port| {
        let url = format!("http://127.0.0.1:{port}");
        format!("or join a server that runs already: --url {url}, or `server: {{url: '{url}'}}` in an experiment")
    });
    std::iter::once(format!("give its place: {PROGRAM_OPTION}")).chain(join).collect()
}

fn not_a_program_hints(engine: EngineKind, program: &Path) -> Vec<String> {
    vec![match engine.profile().takes_prompts {
        true => format!("give the place of the program: {PROGRAM_OPTION}"),
        false => format!("see whether it is there, and may be executed: command -v '{}'", program.display()),
    }]
}

fn missing_model_hints(engine: EngineKind, name: &str, listed: &[String]) -> Vec<String> {
    match engine.profile().missing_model {
        [] => listed.iter().take(1).map(|name| format!("name one that it has: --model-name {name}")).collect(),
        commands => commands.iter().map(|command| command.replace("{name}", name)).collect(),
    }
}

impl From<ServerError> for EngineFailure {
    fn from(error: ServerError) -> Self {
        EngineFailure { message: error.to_string(), hints: error.hints() }
    }
}

fn names_in_words(names: &[String]) -> String {
    match names {
        [] => "no models".to_owned(),
        names if names.len() > NAMES_SHOWN => {
            format!("{} and {} more", names[..NAMES_SHOWN].join(", "), names.len() - NAMES_SHOWN)
        }
        names => names.join(", "),
    }
}
