//! `config.json` beside the page: which runtimes and models there are, by addresses relative to the page.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::shelf::{address_of, model_place};
use crate::{Runtime, RuntimeFiles, WebModel};

#[derive(Debug, Serialize)]
pub(crate) struct Config {
    runtimes: BTreeMap<&'static str, String>,
    versions: BTreeMap<&'static str, &'static str>,
    models: Vec<Model>,
}

#[derive(Debug, Serialize)]
struct Model {
    name: String,
    runtime: &'static str,
    url: String,
    bytes: u64,
    /// Of a folder, which cannot be listed by its address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<ModelFile>,
}

#[derive(Debug, Serialize)]
struct ModelFile {
    path: String,
    bytes: u64,
}

impl Config {
    pub(crate) fn new(runtimes: &[RuntimeFiles], models: &[WebModel]) -> Self {
        Self {
            runtimes: runtimes.iter().map(|files| (name(files), format!("runtimes/{}/", name(files)))).collect(),
            versions: runtimes.iter().map(|files| (name(files), files.release.version())).collect(),
            models: models.iter().enumerate().map(|(index, model)| Model::new(index, model)).collect(),
        }
    }
}

fn name(files: &RuntimeFiles) -> &'static str {
    files.release.runtime.name()
}

impl Model {
    fn new(index: usize, model: &WebModel) -> Self {
        let place = model_place(index, model.runtime);
        let file = |file: &crate::folder::ListedFile| ModelFile { path: file.name.clone(), bytes: file.bytes };
        let (url, files) = match (model.runtime, &model.files[..]) {
            (Runtime::Wllama, [file]) => (format!("{place}{}", address_of(&file.name)), Vec::new()),
            (_, files) => (place, files.iter().map(file).collect()),
        };
        Self { name: model.name.clone(), runtime: model.runtime.name(), url, bytes: model.bytes(), files }
    }
}
