//! What is to be captured, as a worker is told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use dwell_events::engine::{Action, Job};
use dwell_tensors::{Pressure, StreamOptions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{CaptureError, Selection};

/// In front of the settings in a stream's metadata.
const SETTING_PREFIX: &str = "capture.";
/// Pieces of a model file that its fingerprint is made of.
const FINGERPRINT_PIECES: u64 = 64;
/// Length of each of them, and of its beginning.
const PIECE_BYTES: u64 = 64 << 10;
/// The beginning holds the metadata and the list of tensors.
const BEGINNING_BYTES: u64 = 1 << 20;

/// A capture for a worker to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaptureJob {
    /// What the engine does.
    pub job: Job,
    /// What is captured of it.
    pub selection: Selection,
    /// Where it goes; `None` only lists what there is.
    pub output: Option<CaptureOutput>,
}

/// Where tensors go, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaptureOutput {
    /// The stream.
    pub path: PathBuf,
    /// The codec, as text.
    pub codec: String,
    /// What happens when memory is full.
    pub pressure: Pressure,
    /// The most that tensors on their way may take.
    pub max_memory_bytes: u64,
    /// Tokens from one checkpoint to the next; `None` for no checkpoints.
    pub checkpoint_every: Option<u64>,
    /// Whether to go on with a capture that was cut off.
    pub is_resumed: bool,
    /// Which model it is: see [`model_fingerprint`].
    pub model_fingerprint: String,
}

impl CaptureJob {
    /// What decides which tensors come out, by name.
    fn settings(&self, output: &CaptureOutput) -> BTreeMap<String, String> {
        let options = serde_json::to_value(&self.job.options).unwrap_or_default();
        let options = options.as_object().cloned().unwrap_or_default();
        // Where the file lies, and how finely a run would be timed, change nothing here.
        let options = options.into_iter().filter(|(name, _)| name != "model" && name != "time_resolution");
        let mut settings: BTreeMap<String, String> = options.map(|(name, value)| (name, value.to_string())).collect();
        let prompt = self.job.actions.iter().find_map(|action| match action {
            Action::Prompt { text, .. } => Some(text.clone()),
            _ => None,
        });
        settings.extend([
            ("prompt".to_owned(), prompt.unwrap_or_default()),
            ("tensors".to_owned(), self.selection.tensors.join(",")),
            ("layers".to_owned(), self.selection.layers.clone().map_or("all".to_owned(), String::from)),
            ("phase".to_owned(), self.selection.phase.name().to_owned()),
            ("every".to_owned(), self.selection.every.to_string()),
            ("slice".to_owned(), self.selection.slice.to_string()),
            ("codec".to_owned(), output.codec.clone()),
            ("model_fingerprint".to_owned(), output.model_fingerprint.clone()),
        ]);
        settings
    }

    /// How the stream is written, and what it says about itself. All of that must be the same to go on with it, so it
    /// says nothing of how far the generation goes.
    pub(crate) fn stream_options(&self, output: &CaptureOutput, engine: &str) -> Result<StreamOptions, CaptureError> {
        let settings = self.settings(output).into_iter();
        let mut metadata: BTreeMap<String, String> =
            settings.map(|(name, value)| (format!("{SETTING_PREFIX}{name}"), value)).collect();
        let model_name = self.job.options.model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        metadata.extend([("engine".to_owned(), engine.to_owned()), ("model".to_owned(), model_name)]);
        Ok(StreamOptions {
            codec: output.codec.parse()?,
            pressure: output.pressure,
            max_memory_bytes: output.max_memory_bytes,
            metadata,
            ..StreamOptions::default()
        })
    }
}

/// Tells model files apart without reading all of a large one: by length, beginning, end and pieces in between.
pub fn model_fingerprint(model: &Path) -> io::Result<String> {
    let mut file = File::open(model)?;
    let length = file.metadata()?.len();
    let mut digest = Sha256::new();
    digest.update(length.to_le_bytes());
    let last = length.saturating_sub(PIECE_BYTES);
    let pieces = (0..=FINGERPRINT_PIECES).map(|piece| last / FINGERPRINT_PIECES * piece).chain([last]);
    for (start, length) in std::iter::once((0, BEGINNING_BYTES)).chain(pieces.map(|start| (start, PIECE_BYTES))) {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        Read::by_ref(&mut file).take(length).read_to_end(&mut bytes)?;
        digest.update(&bytes);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_length_beginning_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let of = |bytes: &[u8]| {
            let path = folder.path().join("model");
            std::fs::write(&path, bytes).unwrap();
            model_fingerprint(&path).unwrap()
        };
        let whole = vec![7; 9 << 20];
        let with = |place: usize| {
            let mut bytes = whole.clone();
            bytes[place] = 8;
            of(&bytes)
        };
        assert_eq!(of(&whole), of(&whole));
        let others = [of(&whole[1..]), of(b""), with(0), with((1 << 20) - 1), with(whole.len() - 1)];
        assert!(others.iter().all(|other| *other != of(&whole)));
    }
}
