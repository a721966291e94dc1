//! Which model an engine is to run: a file on this machine, or a name that a server knows.

use std::path::{Path, PathBuf};

use dwell_events::engine::{EngineKind, EngineProfile, ModelSource, Reach};
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
        match args.engine.profile().model {
            ModelSource::FileUnlessJoined if is_joined && given.is_none() => Ok(Self::of_server(args.engine, name)),
            ModelSource::File | ModelSource::FileUnlessJoined => Self::of_file(given, name),
            ModelSource::FileOrName => match given {
                Some(path) if !is_file_like(path) => Ok(Self::of_server(args.engine, name.or(text_of(path)))),
                None if is_joined || name.is_some() => Ok(Self::of_server(args.engine, name)),
                given => Self::of_file(given, name),
            },
            ModelSource::Folder => match given.map(Path::to_owned).or_else(|| name.as_deref().map(PathBuf::from)) {
                Some(folder) if folder.is_dir() => Self::of_folder(&folder, name),
                given => Err(no_folder(args.engine, given.as_deref()).into()),
            },
            ModelSource::FolderOrName if !is_joined => match given {
                Some(folder) if folder.is_dir() => Self::of_folder(folder, name),
                Some(path) if is_file_like(path) => Self::of_file(Some(path), name),
                Some(path) => Ok(Self::of_server(args.engine, name.or(text_of(path)))),
                None if name.is_some() => Ok(Self::of_server(args.engine, name)),
                None => Err(no_model(args.engine).into()),
            },
            ModelSource::FolderOrName | ModelSource::Own => match given {
                Some(path) if is_file_like(path) => Self::of_file(Some(path), name),
                given => Ok(Self::of_server(args.engine, name.or(given.and_then(text_of)))),
            },
        }
    }

    /// How the model is called on the terminal.
    pub(crate) fn name_shown(&self) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.or_else(|| self.name.clone()).unwrap_or_else(|| self.id.clone())
    }

    fn of_file(given: Option<&Path>, name: Option<String>) -> anyhow::Result<Self> {
        let model = model_cache::resolve(given)?;
        let file = model_file::open_to_run(&model.path)?;
        Ok(Self { id: model.id, path: model.path, file: Some(file), name })
    }

    /// A folder with a model, as Hugging Face's library writes it.
    fn of_folder(folder: &Path, name: Option<String>) -> anyhow::Result<Self> {
        // The engine may be started elsewhere.
        let path = folder.canonicalize()?;
        let stem = path.file_name().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { id: model_cache::id_of_name(&stem), path, file: None, name })
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

fn no_model(engine: EngineKind) -> Failure {
    let message = format!("checking the options: no model for {}, which has to be started with one", engine.name());
    Failure::new(message)
        .hint("--model FOLDER, as Hugging Face's library writes it, or a name on its hub")
        .hint(format!("or join one that runs: --url http://127.0.0.1:{}", engine.profile().port.unwrap_or(80)))
}

fn no_folder(engine: EngineKind, given: Option<&Path>) -> Failure {
    let found = given.map_or_else(|| "no model".to_owned(), |path| format!("{path:?}, which is no folder"));
    let message = format!("checking the options: {found}; {} needs the folder of a model", engine.name());
    Failure::new(message).hint("--model FOLDER")
}

fn text_of(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

/// Whether an engine has a use for an option.
type HasUse = fn(&EngineProfile) -> bool;

/// Refuses options that the engine cannot follow.
pub(crate) fn check_engine_options(args: &RunArgs) -> Result<(), Failure> {
    let (engine, server) = (args.engine, &args.server);
    let profile = engine.profile();
    let options: [(&str, bool, HasUse); 4] = [
        ("--url", server.url.is_some(), EngineProfile::is_joinable),
        ("--program", server.program.is_some(), EngineProfile::is_startable),
        ("--device", server.device.is_some(), |profile| profile.is_in_browser),
        ("--kv-events", server.kv_events.is_some(), |profile| profile.publishes_kv_events),
    ];
    if let Some((option, _, has_use)) =
        options.into_iter().find(|(_, is_given, has_use)| *is_given && !has_use(profile))
    {
        let found = engine.name();
        let failure =
            Failure::new(format!("checking the options: {option} with the engine {found}, which has no use for it"));
        return Err(failure.hint(format!("--engine {}", EngineKind::names_of(has_use))));
    }
    if profile.reach == Reach::Joined && server.url.is_none() {
        let found = engine.name();
        let failure =
            Failure::new(format!("checking the options: the engine {found} needs a server that runs already"));
        return Err(failure.hint(format!("--url http://127.0.0.1:{}", profile.port.unwrap_or(80))));
    }
    Ok(())
}
