//! A model, checked before a page can ask for it.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_gguf::GgufFile;

use crate::folder::{ListedFile, files_below};
use crate::{Runtime, WebError};

const NEEDED: &str = "a GGUF file, a folder with config.json and an .onnx file, or one with mlc-chat-config.json";

/// A model that a runtime can load.
#[derive(Debug)]
pub struct WebModel {
    /// Its name on the page.
    pub(crate) name: String,
    pub(crate) runtime: Runtime,
    pub(crate) files: Vec<ListedFile>,
    gguf: Option<GgufFacts>,
}

/// What a GGUF file says of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufFacts {
    /// Values of all its tensors.
    pub parameters: u64,
    /// Bytes of all its tensors.
    pub tensor_bytes: u64,
}

impl WebModel {
    /// Opens a GGUF file, which wllama runs, or a folder of transformers.js or WebLLM.
    pub fn open(path: &Path) -> Result<Self, WebError> {
        match fs::metadata(path) {
            Ok(facts) if facts.is_dir() => Self::of_folder(path),
            // Opening a pipe would wait for its other end.
            Ok(facts) if !facts.is_file() => Err(no_model("something that is neither a file nor a folder", path)),
            _ => Self::of_gguf(path),
        }
    }

    /// Its name: that of the file without its ending, or of the folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What runs it.
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// What its file says, if it is a GGUF file.
    pub fn gguf(&self) -> Option<GgufFacts> {
        self.gguf
    }

    fn of_gguf(path: &Path) -> Result<Self, WebError> {
        let gguf = GgufFile::open(path)?;
        let real = path.canonicalize().map_err(|source| WebError::Folder { path: path.to_owned(), source })?;
        let shown = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        let file = ListedFile { name: shown(path.file_name()), path: real, bytes: gguf.file_bytes() };
        let facts = GgufFacts { parameters: gguf.parameters(), tensor_bytes: gguf.tensor_bytes() };
        Ok(Self { name: shown(path.file_stem()), runtime: Runtime::Wllama, files: vec![file], gguf: Some(facts) })
    }

    fn of_folder(path: &Path) -> Result<Self, WebError> {
        let files = files_below(path)?;
        let has = |name: &str| files.iter().any(|file| file.name == name);
        let has_ending = |ending: &str| files.iter().any(|file| file.name.ends_with(ending));
        let runtime = match () {
            () if has("mlc-chat-config.json") => Runtime::WebLlm,
            () if has("config.json") && has_ending(".onnx") => Runtime::TransformersJs,
            () => return Err(no_model("a folder without these files", path)),
        };
        let missing = missing_file(runtime, &has, &has_ending);
        match missing {
            Some(needed) => Err(WebError::NoModel { found: "a folder without a file", needed, path: path.to_owned() }),
            None => Ok(Self { name: folder_name(path), runtime, files, gguf: None }),
        }
    }
}

/// What a runtime cannot do without.
fn missing_file(
    runtime: Runtime,
    has: &dyn Fn(&str) -> bool,
    has_ending: &dyn Fn(&str) -> bool,
) -> Option<&'static str> {
    let is_webllm = runtime == Runtime::WebLlm;
    let has_tokenizer = has("tokenizer.json") || is_webllm && has("tokenizer.model");
    let has_weights = has("tensor-cache.json") || has("ndarray-cache.json");
    match () {
        () if is_webllm && !has_weights => Some("tensor-cache.json or ndarray-cache.json, the list of the weights"),
        () if is_webllm && !has_ending(".wasm") => Some("the compiled library of the model, a .wasm file"),
        () if !has_tokenizer => Some("tokenizer.json"),
        () => None,
    }
}

fn no_model(found: &'static str, path: &Path) -> WebError {
    WebError::NoModel { found, needed: NEEDED, path: path.to_owned() }
}

fn folder_name(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    real.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn opened(names: &[&str]) -> Result<Runtime, String> {
        let place = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(place.path().join(name), "x").unwrap();
        }
        WebModel::open(place.path()).map(|model| model.runtime()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_is_a_model_of_the_runtime_whose_files_it_has() {
        assert_eq!(opened(&["config.json", "tokenizer.json", "model.onnx"]), Ok(Runtime::TransformersJs));
        let webllm = ["mlc-chat-config.json", "ndarray-cache.json", "tokenizer.json", "lib.wasm"];
        assert_eq!(opened(&webllm), Ok(Runtime::WebLlm));
        assert!(opened(&webllm[..3]).unwrap_err().contains("needed the compiled library"));
        assert!(opened(&["config.json", "model.onnx"]).unwrap_err().contains("needed tokenizer.json"));
        assert!(opened(&["README.md"]).unwrap_err().contains("a GGUF file, a folder with config.json"));
    }

    #[test]
    fn a_missing_a_truncated_and_a_strange_file_are_told() {
        let place = tempfile::tempdir().unwrap();
        let told = |path: &Path| WebModel::open(path).unwrap_err().to_string();
        let missing = place.path().join("none.gguf");
        assert!(told(&missing).contains("none.gguf"), "{}", told(&missing));
        let strange = place.path().join("page.gguf");
        fs::write(&strange, "<html>").unwrap();
        assert!(!told(&strange).is_empty());
        assert!(told(Path::new("/dev/null")).contains("neither a file nor a folder"));
    }
}
