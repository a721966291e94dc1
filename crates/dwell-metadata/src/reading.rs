//! Reading `metadata.json`, with its version checked first.

use std::path::{Path, PathBuf};

use dwell_events::Hint;
use serde_json::{Map, Value};

use crate::RunMetadata;

/// Key of the version.
const VERSION_KEY: &str = "metadata_schema_version";

/// Why a `metadata.json` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The file was written by a version whose keys mean something else.
    #[error("reading the metadata of a run found version {found}, and {known} is needed: {path:?}")]
    OtherMajorVersion {
        /// Version in the file.
        found: String,
        /// Version that this program writes; every version with the same major part can be read.
        known: &'static str,
        /// The file.
        path: PathBuf,
    },

    /// The file does not hold what it should.
    #[error("reading the metadata of a run found JSON that does not fit ({reason}): {path:?}")]
    Unfit {
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}

impl Hint for MetadataError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::OtherMajorVersion { found, known, .. } => vec![format!(
                "read the run with a version of dwell that writes metadata {found}; this one writes {known} \
                 (`dwell --version`)"
            )],
            Self::Unfit { path, .. } => {
                vec![format!("see whether the file was changed with `dwell verify '{}'`", parent(path).display())]
            }
        }
    }
}

impl RunMetadata {
    /// Reads the text of a `metadata.json`; `path` is for the message of an error.
    ///
    /// Files of another program, which state no version, and files of a later minor version may hold values that this
    /// version does not know: their keys are left out. In a file of this version or an earlier one, such a value is
    /// damage.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, MetadataError> {
        let unfit =
            |error: serde_json::Error| MetadataError::Unfit { reason: error.to_string(), path: path.to_owned() };
        let mut value: Value = serde_json::from_slice(text).map_err(unfit)?;
        if let Some(object) = value.as_object_mut() {
            move_perf(object);
        }
        let version = value.get(VERSION_KEY).map(|found| found.as_str().unwrap_or_default());
        let (known_major, known_minor) = parts(Self::VERSION);
        let is_stricter = match version.map(parts) {
            Some((major, _)) if major != known_major => {
                let found = value[VERSION_KEY].as_str().map_or_else(|| value[VERSION_KEY].to_string(), str::to_owned);
                return Err(MetadataError::OtherMajorVersion { found, known: Self::VERSION, path: path.to_owned() });
            }
            Some((_, minor)) => minor <= known_minor,
            None => false,
        };
        match value {
            Value::Object(object) if !is_stricter => serde_json::from_value(Value::Object(fitting(object))),
            other => serde_json::from_value(other),
        }
        .map_err(unfit)
    }
}

/// Files of version 1.7 may say beside `import`, in a key of its own, which recording of perf they were made from.
fn move_perf(object: &mut Map<String, Value>) {
    let Some(Value::Object(perf)) = object.remove("perf") else { return };
    let import = object.entry("import").or_insert_with(|| Value::Object(Map::new()));
    let Some(import) = import.as_object_mut() else { return };
    for (key, value) in perf.into_iter().filter(|(key, value)| key != "file" && !value.is_null()) {
        import.entry(key).or_insert(value);
    }
}

/// The keys whose values fit.
fn fitting(object: Map<String, Value>) -> Map<String, Value> {
    let fits = |(key, value): &(String, Value)| {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        serde_json::from_value::<RunMetadata>(Value::Object(alone)).is_ok()
    };
    object.into_iter().filter(fits).collect()
}

/// Major and minor part of a version; none where there is no number.
fn parts(version: &str) -> (Option<u32>, Option<u32>) {
    let mut parts = version.splitn(2, '.').map(|part| part.parse().ok());
    (parts.next().flatten(), parts.next().flatten())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
