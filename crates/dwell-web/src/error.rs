use std::io;
use std::path::PathBuf;

use dwell_events::Hint;
use dwell_gguf::GgufError;
use dwell_loopback::LoopbackError;

/// Why a model cannot be served, or nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The server cannot listen.
    #[error(transparent)]
    Listen(#[from] LoopbackError),

    /// A GGUF file is missing, truncated or damaged.
    #[error(transparent)]
    Gguf(#[from] GgufError),

    /// A folder cannot be read.
    #[error("opening the folder failed with {source}: {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// A folder holds what must not be served.
    #[error("listing the files to serve found {found}: {path:?}")]
    UnfitFolder {
        /// What was found.
        found: &'static str,
        /// Where.
        path: PathBuf,
    },

    /// A path is no model.
    #[error("opening the model found {found}, needed {needed}: {path:?}")]
    NoModel {
        /// What was found.
        found: &'static str,
        /// What a runtime could have used.
        needed: &'static str,
        /// The path.
        path: PathBuf,
    },
}

impl Hint for WebError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Listen(error) => error.hints(),
            Self::Gguf(error) => error.hints(),
            Self::UnfitFolder { .. } => {
                vec!["copy the files that the model needs into a folder of their own".to_owned()]
            }
            Self::Folder { .. } => Vec::new(),
            Self::NoModel { .. } => {
                vec!["wllama runs a GGUF file; transformers.js and WebLLM run a folder as it is published".to_owned()]
            }
        }
    }
}
