//! A model of the experiment: what runs it, its file, and whether that is the model that the experiment file speaks of.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use dwell_collectors::Target;
use dwell_config::ModelConfig;
use dwell_events::engine::EngineKind;
use dwell_events::server::{KvEventsOptions, ServerOptions};
use dwell_gguf::{GgufFile, InfoOptions, MemoryRequest, ModelInfo, ModelShape};
use sha2::{Digest, Sha256};

use crate::Finding;

/// How far the number of parameters may be off what the experiment file says.
const PARAMETERS_TOLERANCE: f64 = 0.05;

/// Pieces of a model's file that are looked at to tell it from another, and their size. A file of no more than that is
/// read as a whole.
const PIECES: u64 = 64;
const PIECE_BYTES: u64 = 64 << 10;

/// A model and what runs it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Name of the model; its runs are filed under it.
    pub id: String,
    /// What runs it.
    pub engine: EngineKind,
    /// How a runtime other than the embedded one is reached or started.
    pub server: ServerOptions,
    /// Where its server publishes what becomes of its KV blocks.
    pub kv_events: Option<KvEventsOptions>,
    /// The file; none if only the server has the model.
    pub file: Option<ModelFile>,
}

/// A model's file that was found and read.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// The file.
    pub path: PathBuf,
    /// What is in the file.
    pub info: ModelInfo,
    /// Layers, heads and rows.
    pub shape: ModelShape,
    /// Bytes of all tensors.
    pub weights_bytes: u64,
    /// Tells files apart by what is in them, wherever they are.
    pub fingerprint: String,
    /// The template that prompts are wrapped in.
    pub chat_template: Option<String>,
}

impl Model {
    /// Reads the header of a model's file, if it has one. Findings are what does not agree with the experiment file.
    ///
    /// `program` is the server's program, found from the experiment file.
    pub fn open(
        config: &ModelConfig,
        path: Option<PathBuf>,
        program: Option<PathBuf>,
    ) -> Result<(Self, Vec<Finding>), Finding> {
        let (file, findings) = match path {
            Some(path) => ModelFile::open(config, path).map(|(file, findings)| (Some(file), findings))?,
            None => (None, unchecked(config).into_iter().collect()),
        };
        let template = file.as_ref().and_then(|file| file.chat_template.clone());
        // The embedded engine fills the template itself; a file that only tells a shape is not what the server runs.
        let is_filled_here = config.engine.profile().runs_model_file() && !config.engine.is_embedded();
        let template = template.filter(|_| is_filled_here && config.server.api.is_none());
        let server = ServerOptions { program, template, ..config.server.options() };
        let kv_events = config.server.kv_events.options();
        Ok((Self { id: config.id.clone(), engine: config.engine, server, kv_events, file }, findings))
    }

    /// Whether its server runs already and is left as it is.
    pub fn is_joined(&self) -> bool {
        self.server.url.is_some()
    }

    /// What collectors are asked whether they can watch.
    pub(crate) fn target(&self) -> Target<'_> {
        Target { engine: self.engine, is_joined: self.is_joined(), kv_events: self.kv_events.as_ref() }
    }
}

/// What the experiment file says of a model and cannot be compared with anything.
fn unchecked(config: &ModelConfig) -> Option<Finding> {
    let keys = [
        (config.family.is_some(), "family"),
        (config.params.is_some(), "params"),
        (config.quantisation.is_some(), "quantisation"),
        (config.dtype.is_some(), "dtype"),
    ];
    let given: Vec<&str> = keys.into_iter().filter_map(|(is_given, key)| is_given.then_some(key)).collect();
    let message =
        format!("model {:?}: {} cannot be checked, only the server has the model", config.id, given.join(", "));
    (!given.is_empty()).then(|| Finding::warning(message).hint("give its GGUF file as `path` to have it checked"))
}

impl ModelFile {
    fn open(config: &ModelConfig, path: PathBuf) -> Result<(Self, Vec<Finding>), Finding> {
        let about =
            |finding: Finding| Finding { message: format!("model {:?}: {}", config.id, finding.message), ..finding };
        let file = GgufFile::open(&path).map_err(|error| about(Finding::of(&error)))?;
        let shape = ModelShape::from_gguf(&file).map_err(|error| about(Finding::error(error.to_string())))?;
        let memory = MemoryRequest::new(0, dwell_events::engine::KvType::F16);
        let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: false })
            .map_err(|error| about(Finding::error(error.to_string())))?;
        let fingerprint = fingerprint(&path)
            .map_err(|error| about(Finding::error(format!("reading the model failed with {error}: {path:?}"))))?;
        let file_read = Self {
            fingerprint,
            path,
            weights_bytes: file.tensor_bytes(),
            chat_template: file.text("tokenizer.chat_template").map(str::to_owned),
            info,
            shape,
        };
        let findings = file_read.disagreements(config).into_iter().map(about).collect();
        Ok((file_read, findings))
    }

    /// The type that most bytes of the file have.
    fn main_type(&self) -> String {
        self.info.types.first().map(|total| total.type_name.to_lowercase()).unwrap_or_default()
    }

    fn disagreements(&self, config: &ModelConfig) -> Vec<Finding> {
        let differs = |key: &str, said: String, found: String| {
            let message = format!("{key} is {said:?} in the experiment file, and the model's file has {found:?}");
            Finding::error(message).hint(format!("{key}: {found}"))
        };
        let family = config.family.as_ref().filter(|family| **family != self.info.architecture);
        let family = family.map(|said| differs("family", said.clone(), self.info.architecture.clone()));
        let main_type = self.main_type();
        let said_type = |said: String, key| (said != main_type).then(|| differs(key, said, main_type.clone()));
        let quantisation = config.quantisation.clone().and_then(|said| said_type(said, "quantisation"));
        let dtype = config.dtype.and_then(|said| said_type(said.name().to_owned(), "dtype"));
        let found = self.info.parameters;
        let is_off = |said: &u64| (*said as f64 - found as f64).abs() > found as f64 * PARAMETERS_TOLERANCE;
        let params = config.params.filter(is_off).map(|said| differs("params", said.to_string(), found.to_string()));
        [family, params, quantisation, dtype].into_iter().flatten().collect()
    }
}

/// Size and a hash over pieces of the file, evenly spread from its first byte to its last: other weights differ in
/// every tensor, and reading all of a large model would take longer than a run.
fn fingerprint(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let last = file_bytes.saturating_sub(PIECE_BYTES);
    let mut hasher = Sha256::new();
    let mut content = Vec::new();
    for piece in 0..PIECES {
        let offset = u128::from(last) * u128::from(piece) / u128::from(PIECES - 1);
        file.seek(SeekFrom::Start(offset as u64))?;
        content.clear();
        file.by_ref().take(PIECE_BYTES).read_to_end(&mut content)?;
        hasher.update(&content);
    }
    let hash: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{file_bytes} {hash}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_content_and_not_by_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            fingerprint(&path).unwrap()
        };
        let mut content = vec![7; 3 << 20];
        let first = file("first", &content);
        assert_eq!(file("second", &content), first);
        content[2 << 20] = 8;
        assert_ne!(file("first", &content), first);
        assert_ne!(file("empty", &[]), file("zero", &[0]));
    }
}
