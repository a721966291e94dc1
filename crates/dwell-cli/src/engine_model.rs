//! Which model an engine is to run: a file on this machine, or a name that a server knows.

use std::path::{Path, PathBuf};

use dwell_events::engine::EngineKind;
use dwell_gguf::GgufFile;

use crate::args::RunArgs;
use crate::messages::Failure;
use crate::{model_cache, model_file};

/// A model that an engine is to run.
pub(crate) struct EngineModel {
    /// The name that its runs are filed under.
    pub(crate) id: String,
    /// Its file; empty if only the server knows it.
    pub(crate) path: PathBuf,
    /// What the file says.
    pub(crate) file: Option<GgufFile>,
    /// Its name on the server.
    pub(crate) name: Option<String>,
}

impl EngineModel {
    /// The model that the arguments mean.
    pub(crate) fn choose(args: &RunArgs) -> anyhow::Result<Self> {
        let (given, name) = (args.generation.model.as_deref(), args.server.model_name.clone());
        let is_joined = args.server.url.is_some();
        match args.engine {
            EngineKind::LlamaCpp | EngineKind::LlamaCli => Self::of_file(given, name),
            EngineKind::LlamaServer if is_joined && given.is_none() => Ok(Self::of_server(args.engine, name)),
            EngineKind::LlamaServer => Self::of_file(given, name),
            EngineKind::Ollama => match given {
                Some(path) if !is_file_like(path) => Ok(Self::of_server(args.engine, name.or(text_of(path)))),
                None if is_joined || name.is_some() => Ok(Self::of_server(args.engine, name)),
                given => Self::of_file(given, name),
            },
            EngineKind::OpenAi | EngineKind::Vllm | EngineKind::Sglang => match given {
                Some(path) if is_file_like(path) => Self::of_file(Some(path), name),
                given => Ok(Self::of_server(args.engine, name.or(given.and_then(text_of)))),
            },
        }
    }

    fn of_file(given: Option<&Path>, name: Option<String>) -> anyhow::Result<Self> {
        let model = model_cache::resolve(given)?;
        let file = model_file::open_to_run(&model.path)?;
        Ok(Self { id: model.id, path: model.path, file: Some(file), name })
    }

    fn of_server(engine: EngineKind, name: Option<String>) -> Self {
        let id = name.as_deref().map_or_else(|| engine.name().to_owned(), model_cache::id_of_name);
        Self { id, path: PathBuf::new(), file: None, name }
    }
}

/// Whether an argument means a file rather than a name on a server.
fn is_file_like(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|ending| ending == "gguf")
}

fn text_of(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

/// Refuses options that the engine cannot follow.
pub(crate) fn check_engine_options(args: &RunArgs) -> Result<(), Failure> {
    let (engine, server) = (args.engine, &args.server);
    let has_kv_events = matches!(engine, EngineKind::Vllm | EngineKind::Sglang);
    let refused = |option: &str, engines: &str| {
        let found = engine.name();
        let failure =
            Failure::new(format!("checking the options: {option} with the engine {found}, which has no use for it"));
        failure.hint(format!("--engine {engines}"))
    };
    let of_servers = "llama_server, ollama, openai, vllm or sglang";
    match () {
        () if engine.is_embedded() && server.url.is_some() => Err(refused("--url", of_servers)),
        () if engine.is_embedded() && server.program.is_some() => {
            Err(refused("--program", "llama_server, llama_cli or ollama"))
        }
        () if engine == EngineKind::LlamaCli && server.url.is_some() => Err(refused("--url", of_servers)),
        () if !has_kv_events && server.kv_events.is_some() => Err(refused("--kv-events", "vllm or sglang")),
        () if engine == EngineKind::OpenAi && server.url.is_none() => {
            let failure = Failure::new("checking the options: the engine openai needs a server that runs already");
            Err(failure.hint("--url http://127.0.0.1:8000"))
        }
        () => Ok(()),
    }
}
