//! Every address that is answered, with what it answers. Nothing can be added by a request.

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::config::Config;
use crate::folder::{ListedFile, files_below};
use crate::page::PAGE;
use crate::{Runtime, RuntimeFiles, WebError, WebModel};

/// What stands for something else in the path of an address.
const RESERVED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`').add(b'%').add(b'\\');

/// What an address answers.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    File(PathBuf),
}

/// Contents by address, relative to the page and without escapes.
pub(crate) struct Shelf(HashMap<String, Content>);

impl Shelf {
    pub(crate) fn new(runtimes: &[RuntimeFiles], models: Vec<WebModel>) -> Result<Self, WebError> {
        let config = Config::new(runtimes, &models);
        // Texts and numbers alone cannot fail to become JSON.
        let config = serde_json::to_vec(&config).unwrap_or_default();
        let mut shelf = HashMap::from([("config.json".to_owned(), Content::Bytes(config.into()))]);
        for file in PAGE {
            shelf.insert(file.name.to_owned(), Content::Bytes(Bytes::from_static(file.content)));
        }
        let mut add = |place: &str, files: Vec<ListedFile>| {
            shelf.extend(files.into_iter().map(|file| (format!("{place}{}", file.name), Content::File(file.path))));
        };
        for (name, folder) in runtimes.iter().flat_map(|files| &files.folders) {
            add(&format!("runtimes/{name}/"), files_below(folder)?);
        }
        for (index, model) in models.into_iter().enumerate() {
            add(&model_place(index, model.runtime), model.files);
        }
        Ok(Self(shelf))
    }

    /// What an address below the token answers.
    pub(crate) fn get(&self, address: &str) -> Option<(&str, &Content)> {
        let address = if address.is_empty() { "index.html" } else { address };
        self.0.get_key_value(address).map(|(name, content)| (name.as_str(), content))
    }
}

/// The folder that a model is served in. WebLLM adds `resolve/main/` to addresses that have nothing like it.
pub(crate) fn model_place(index: usize, runtime: Runtime) -> String {
    match runtime {
        Runtime::WebLlm => format!("models/{index}/resolve/main/"),
        Runtime::Wllama | Runtime::TransformersJs => format!("models/{index}/"),
    }
}

/// A file's name as part of an address.
pub(crate) fn address_of(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}
