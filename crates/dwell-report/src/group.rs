//! What makes runs repetitions of each other: equal keys.

use std::collections::BTreeSet;

use dwell_metadata::RunMetadata;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::run_results::RunResults;

/// Options that are keys of their own, or that name a file rather than a setting.
const NOT_SETUP: [&str; 7] =
    ["model", "context_length", "parallel", "kv_type_k", "kv_type_v", "flash_attention", "threads"];

/// The keys by which runs are grouped. Runs with equal keys are repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey {
    /// The model.
    pub model_id: String,
    /// Positions in the KV cache.
    pub context_length: Option<u64>,
    /// Sequences generated side by side.
    pub batch_size: Option<u64>,
    /// Most tokens to generate per sequence.
    pub output_tokens: Option<u64>,
    /// Type of keys and values; `k/v` if they differ.
    pub kv_type: Option<String>,
    /// Whether attention runs as one fused operation.
    pub flash_attention: Option<bool>,
    /// Threads that compute.
    pub threads: Option<u64>,
    /// Fingerprint of all else that could make runs differ: processor, runtime, prompts, other options, definitions.
    pub setup: String,
}

impl GroupKey {
    /// Columns of the keys in `summary.csv`.
    pub const COLUMNS: [&str; 8] =
        ["model_id", "context_length", "batch_size", "output_tokens", "kv_type", "flash_attention", "threads", "setup"];

    /// The keys of a run.
    pub fn of(run: &RunResults) -> Self {
        let metadata = &run.metadata;
        Self {
            model_id: metadata.model_id.clone(),
            context_length: metadata.option_number("context_length"),
            batch_size: metadata.option_number("parallel"),
            output_tokens: metadata.most_output_tokens(),
            kv_type: metadata.kv_type(),
            flash_attention: metadata.option_flag("flash_attention"),
            threads: metadata.option_number("threads"),
            setup: setup(run),
        }
    }

    /// The keys as text, in the order of [`GroupKey::COLUMNS`]; empty where a run does not say.
    pub fn fields(&self) -> [String; 8] {
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        [
            self.model_id.clone(),
            number(self.context_length),
            number(self.batch_size),
            number(self.output_tokens),
            self.kv_type.clone().unwrap_or_default(),
            self.flash_attention.map_or_else(String::new, |is_on| if is_on { "on" } else { "off" }.to_owned()),
            number(self.threads),
            self.setup.clone(),
        ]
    }

    /// Eight hexadecimal digits that stand for all keys together.
    pub fn configuration(&self) -> String {
        fingerprint(&self.fields().join("\u{1f}"))
    }

    /// The keys at these places of [`GroupKey::COLUMNS`], in words: `context 256 · kv f16`. Keys that are not known
    /// are left out.
    pub(crate) fn words(&self, places: &[usize]) -> String {
        const NAMES: [&str; 8] = ["", "context ", "batch ", "output ", "kv ", "flash ", "threads ", "setup "];
        let fields = self.fields();
        let known = places.iter().filter(|&&place| !fields[place].is_empty());
        known.map(|&place| format!("{}{}", NAMES[place], fields[place])).collect::<Vec<_>>().join(" · ")
    }
}

/// Positions in [`GroupKey::COLUMNS`] of the keys with more than one value.
pub(crate) fn varying_keys<'a>(keys: impl IntoIterator<Item = &'a GroupKey>) -> Vec<usize> {
    let fields: Vec<[String; 8]> = keys.into_iter().map(GroupKey::fields).collect();
    (0..GroupKey::COLUMNS.len()).filter(|&at| fields.iter().any(|line| line[at] != fields[0][at])).collect()
}

/// The same, as far as they are needed to tell groups apart: the fingerprint often varies with another key, as that of a
/// prompt that fills the context.
pub(crate) fn telling_keys<'a>(keys: impl IntoIterator<Item = &'a GroupKey> + Clone) -> Vec<usize> {
    let others = |key: &GroupKey| key.fields().into_iter().take(SETUP).collect::<Vec<_>>();
    let distinct: BTreeSet<Vec<String>> = keys.clone().into_iter().map(others).collect();
    let is_needed = distinct.len() < keys.clone().into_iter().count();
    varying_keys(keys).into_iter().filter(|&place| place != SETUP || is_needed).collect()
}

/// Position of the fingerprint, the last.
const SETUP: usize = GroupKey::COLUMNS.len() - 1;

/// A fingerprint; equal for runs that differ in their seed, model file name and swept keys at most.
fn setup(run: &RunResults) -> String {
    let metadata = &run.metadata;
    let options: Vec<_> =
        metadata.options.iter().filter(|(name, _)| !NOT_SETUP.contains(&name.as_str()) && *name != "seed").collect();
    let mut actions = metadata.actions.clone();
    actions.iter_mut().filter_map(Value::as_object_mut).for_each(|action| {
        action.remove("max_tokens");
        // How many sequences there are is a key already.
        action.remove("sequences");
    });
    let mut setup = json!({
        "engine": metadata.engine,
        "start": metadata.start.unwrap_or_default(),
        "runtime": metadata.model.as_ref().map(|model| &model.runtime),
        "cpu_model": metadata.cpu_model(),
        "options": options,
        "actions": actions,
        "definitions": run.definitions(),
    });
    if let Some((format, files)) = metadata.imported_from() {
        setup["import"] = json!(format);
        // Nobody said that these recordings are of the same model.
        if metadata.model_id == RunMetadata::MODEL_OF_IMPORTS {
            setup["files"] = json!(files);
        }
    }
    fingerprint(&setup.to_string())
}

/// Eight hexadecimal digits.
fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
