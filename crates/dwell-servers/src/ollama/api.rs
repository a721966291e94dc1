//! What Ollama answers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dwell_events::engine::LoadedModel;
use dwell_events::server::{BufferKind, ReportedBuffer, RequestTimings};
use serde::Deserialize;
use serde_json::Value;

use crate::client::Piece;

#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) version: String,
}

/// `/api/tags`: what is stored.
#[derive(Deserialize)]
pub(super) struct ModelList {
    models: Vec<StoredOne>,
}

#[derive(Deserialize)]
struct StoredOne {
    name: String,
}

impl ModelList {
    pub(super) fn names(self) -> Vec<String> {
        self.models.into_iter().map(|model| model.name).collect()
    }
}

/// `/api/ps`: what is loaded.
#[derive(Deserialize)]
pub(super) struct LoadedList {
    pub(super) models: Vec<LoadedOne>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoadedOne {
    pub(super) name: String,
    /// Everything that the model takes, by Ollama's own estimate.
    size: u64,
    /// The part of it on graphics cards.
    size_vram: u64,
    pub(super) context_length: Option<u32>,
    expires_at: Option<String>,
}

impl LoadedOne {
    /// Weights, cache and the rest in one, as it is said.
    pub(super) fn buffers(&self) -> Vec<ReportedBuffer> {
        let parts = [("CPU", self.size.saturating_sub(self.size_vram)), ("GPU", self.size_vram)];
        let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
        parts
            .map(|(device, bytes)| ReportedBuffer {
                kind: BufferKind::Other,
                device: device.to_owned(),
                bytes,
                is_mapped: false,
            })
            .collect()
    }

    pub(super) fn reported(&self) -> Vec<(String, String)> {
        let mut reported = vec![
            ("ps.size".to_owned(), self.size.to_string()),
            ("ps.size_vram".to_owned(), self.size_vram.to_string()),
        ];
        reported.extend(self.expires_at.clone().map(|time| ("ps.expires_at".to_owned(), time)));
        reported
    }
}

/// Whether two names mean the same model: a name without a tag has the tag `latest`.
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    let whole = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        if last.contains(':') { name.to_owned() } else { format!("{name}:latest") }
    };
    whole(one).eq_ignore_ascii_case(&whole(other))
}

/// `/api/show`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    modelfile: String,
    details: BTreeMap<String, Value>,
    /// The metadata of the GGUF file, without long lists.
    pub(super) model_info: BTreeMap<String, Value>,
}

impl Shown {
    /// The file of the weights, which the Modelfile names.
    pub(super) fn model_path(&self) -> Option<PathBuf> {
        let from = self.modelfile.lines().find_map(|line| line.strip_prefix("FROM "))?;
        Some(PathBuf::from(from.trim().trim_matches('"'))).filter(|path| path.is_absolute())
    }

    /// A number of the metadata, under its name after the architecture's.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let architecture = self.model_info.get("general.architecture")?.as_str()?;
        self.model_info.get(&format!("{architecture}.{name}"))?.as_u64()
    }

    pub(super) fn reported(&self) -> BTreeMap<String, String> {
        let texts = self.details.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
        let texts = texts.filter(|(_, value)| !value.is_empty());
        texts.map(|(name, value)| (format!("details.{name}"), value.to_owned())).collect()
    }

    pub(super) fn model(&self) -> LoadedModel {
        let detail = |name: &str| self.details.get(name).and_then(Value::as_str).unwrap_or_default();
        let words = ["family", "parameter_size", "quantization_level"].map(detail);
        let small = |name: &str| self.number(name).and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
        LoadedModel {
            description: words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "),
            parameters: self.model_info.get("general.parameter_count").and_then(Value::as_u64).unwrap_or_default(),
            layers: small("block_count"),
            vocabulary: small("vocab_size"),
            sliding_window: small("attention.sliding_window"),
            runtime: "ollama".to_owned(),
            ..LoadedModel::default()
        }
    }
}

/// One line of an answer. Times are in nanoseconds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub(super) error: Option<String>,
    response: Option<String>,
    thinking: Option<String>,
    message: Option<Message>,
    pub(super) done: bool,
    total_duration: Option<u64>,
    load_duration: Option<u64>,
    prompt_eval_count: Option<u64>,
    prompt_eval_cached_count: Option<u64>,
    prompt_eval_duration: Option<u64>,
    eval_count: Option<u64>,
    eval_duration: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    content: String,
    thinking: Option<String>,
}

impl Line {
    /// What the last line says of the request.
    pub(super) fn timings(&self) -> RequestTimings {
        RequestTimings {
            prompt_tokens: self.prompt_eval_count,
            cached_tokens: self.prompt_eval_cached_count,
            generated_tokens: self.eval_count,
            load_ns: self.load_duration,
            prompt_ns: self.prompt_eval_duration,
            decode_ns: self.eval_duration,
            total_ns: self.total_duration,
        }
    }

    /// The text that came with it; none if it carries none.
    pub(super) fn into_piece(self, arrived_ns: u64) -> Option<Piece> {
        let message = self.message.unwrap_or_default();
        let parts = [self.thinking, message.thinking, self.response, Some(message.content)];
        let text: String = parts.into_iter().flatten().collect();
        (!text.is_empty()).then_some(Piece { arrived_ns, text, tokens: 1, ..Piece::default() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_is_the_latest() {
        assert!(is_same_name("smol", "smol:latest"));
        assert!(is_same_name("host:5000/me/smol", "host:5000/me/smol:latest"));
        assert!(!is_same_name("smol:135m", "smol"));
    }

    /// The last line of a real answer (Ollama 0.34.4).
    #[test]
    fn all_times_of_the_last_line_are_read() {
        let line: Line = serde_json::from_str(
            r#"{"model":"smol","created_at":"2026-11-15T15:08:36.706236535Z","response":"","done":true,
                "done_reason":"length","total_duration":108283024,"load_duration":947169,"prompt_eval_count":5,
                "prompt_eval_cached_count":4,"prompt_eval_duration":8912000,"eval_count":12,"eval_duration":94772000}"#,
        )
        .unwrap();
        let expected = RequestTimings {
            prompt_tokens: Some(5),
            cached_tokens: Some(4),
            generated_tokens: Some(12),
            load_ns: Some(947_169),
            prompt_ns: Some(8_912_000),
            decode_ns: Some(94_772_000),
            total_ns: Some(108_283_024),
        };
        assert_eq!(line.timings(), expected);
        assert!(line.done && line.into_piece(0).is_none());
    }

    #[test]
    fn thoughts_are_pieces_too() {
        let line: Line =
            serde_json::from_str(r#"{"message":{"role":"assistant","content":"","thinking":"hm"}}"#).unwrap();
        assert_eq!(line.into_piece(3).unwrap().text, "hm");
    }

    #[test]
    fn the_estimate_of_memory_is_split_by_device() {
        let loaded = LoadedOne { size: 100, size_vram: 60, ..LoadedOne::default() };
        let sizes: Vec<_> = loaded.buffers().into_iter().map(|buffer| (buffer.device, buffer.bytes)).collect();
        assert_eq!(sizes, [("CPU".to_owned(), 40), ("GPU".to_owned(), 60)]);
    }
}
