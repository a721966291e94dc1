//! A model of the experiment: its file, and whether that is the model that the experiment file speaks of.

use std::path::PathBuf;

use dwell_config::ModelConfig;
use dwell_gguf::{GgufFile, InfoOptions, MemoryRequest, ModelInfo, ModelShape};

use crate::Finding;

/// How far the number of parameters may be off what the experiment file says.
const PARAMETERS_TOLERANCE: f64 = 0.05;

/// A model whose file was found and read.
#[derive(Clone, Debug)]
pub struct Model {
    /// Name of the model; its runs are filed under it.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// What is in the file.
    pub info: ModelInfo,
    /// Layers, heads and rows.
    pub shape: ModelShape,
    /// Bytes of all tensors.
    pub weights_bytes: u64,
    /// Whether prompts are wrapped in a template of the model's.
    pub has_chat_template: bool,
}

impl Model {
    /// Reads the header of a model's file. Findings are what does not agree with the experiment file.
    pub fn open(config: &ModelConfig, path: PathBuf) -> Result<(Self, Vec<Finding>), Finding> {
        let about =
            |finding: Finding| Finding { message: format!("model {:?}: {}", config.id, finding.message), ..finding };
        let file = GgufFile::open(&path).map_err(|error| about(Finding::of(&error)))?;
        let shape = ModelShape::from_gguf(&file).map_err(|error| about(Finding::error(error.to_string())))?;
        let memory = MemoryRequest::new(0, dwell_events::engine::KvType::F16);
        let info = ModelInfo::new(&file, &InfoOptions { memory, list_tensors: false })
            .map_err(|error| about(Finding::error(error.to_string())))?;
        let model = Self {
            id: config.id.clone(),
            path,
            weights_bytes: file.tensor_bytes(),
            has_chat_template: file.text("tokenizer.chat_template").is_some(),
            info,
            shape,
        };
        let findings = model.disagreements(config).into_iter().map(about).collect();
        Ok((model, findings))
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
