//! What the keys of an experiment must be to each other.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::problem::{Problems, nearest};
use crate::prompts::BUILTIN_CATEGORIES;
use crate::yaml::Place;

/// Folder of the experiments in a results folder, beside those of the models.
const RESERVED_MODEL_ID: &str = "experiments";

/// llama.cpp rounds the context of a sequence up to a multiple of this.
pub const CONTEXT_GRAIN: u64 = 256;

/// Checked values with their places. What was wrong already is `null` and passes.
pub(crate) struct Rules<'a, 'file> {
    pub(crate) values: &'a Json,
    pub(crate) places: &'a BTreeMap<String, Place>,
    pub(crate) problems: &'a mut Problems<'file>,
}

impl Rules<'_, '_> {
    pub(crate) fn check(&mut self) {
        self.models();
        self.servers();
        self.sequences_fit_contexts();
        self.output_fits_contexts();
        self.quantised_values_need_flash_attention();
        self.thresholds();
        self.categories();
    }

    pub(crate) fn place(&self, key: &str) -> Place {
        self.places.get(key).copied().unwrap_or(Place::START)
    }

    pub(crate) fn list(&self, pointer: &str) -> &[Json] {
        self.values.pointer(pointer).and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    fn integers(&self, pointer: &str) -> impl Iterator<Item = (usize, u64)> {
        self.list(pointer).iter().enumerate().filter_map(|(index, value)| Some((index, value.as_u64()?)))
    }

    fn models(&mut self) {
        let models = self.list("/models").to_vec();
        let mut ids: Vec<String> = Vec::new();
        for (index, model) in models.iter().enumerate() {
            let text = |key: &str| model.get(key).and_then(Json::as_str).map(str::to_owned);
            if let Some(id) = text("id") {
                self.model_id(index, &id, &ids);
                ids.push(id);
            }
            if let (Some(_), Some(dtype)) = (text("quantisation"), text("dtype")) {
                let key = format!("models[{index}].dtype");
                let found = format!("{dtype} together with a quantisation");
                self.problems.add(self.place(&key), &key, found, "one of the two: a matrix has one type");
            }
        }
    }

    fn model_id(&mut self, index: usize, id: &str, earlier: &[String]) {
        let key = format!("models[{index}].id");
        // Folders that differ in case only are one folder on some systems.
        if let Some(first) = earlier.iter().position(|other| other.eq_ignore_ascii_case(id)) {
            let needed = format!("another id than that of models[{first}]");
            self.problems.add(self.place(&key), &key, format!("the id {id:?} a second time"), needed);
        }
        if id.eq_ignore_ascii_case(RESERVED_MODEL_ID) {
            let needed = "another name: this is the folder of the experiments themselves";
            self.problems.add(self.place(&key), &key, format!("{id:?}"), needed);
        }
    }

    /// The engine refuses more sequences than positions.
    fn sequences_fit_contexts(&mut self) {
        let Some(least) = self.integers("/sweep/context_lengths").map(|(_, length)| length).min() else { return };
        let too_large: Vec<_> = self.integers("/sweep/batch_sizes").filter(|&(_, size)| size > least).collect();
        for (index, size) in too_large {
            let key = format!("sweep.batch_sizes[{index}]");
            let found = format!("{size} sequences in a context of {least}");
            self.problems.add(self.place(&key), &key, found, "at least one position per sequence");
        }
    }

    /// A generation that cannot fit, however short the prompt is.
    fn output_fits_contexts(&mut self) {
        let smallest_context = self.integers("/sweep/context_lengths").map(|(_, length)| length).min();
        let most_sequences = self.integers("/sweep/batch_sizes").map(|(_, size)| size).max();
        let (Some(context), Some(sequences)) = (smallest_context, most_sequences) else { return };
        let room = (context / sequences).max(1).next_multiple_of(CONTEXT_GRAIN);
        let too_many: Vec<_> = self.integers("/sweep/output_tokens").filter(|&(_, tokens)| tokens >= room).collect();
        for (index, tokens) in too_many {
            let key = format!("sweep.output_tokens[{index}]");
            let found = format!("{tokens} tokens where a sequence has a context of {room}");
            self.problems.add(self.place(&key), &key, found, "room for a prompt before them");
        }
    }

    fn quantised_values_need_flash_attention(&mut self) {
        if !self.list("/sweep/flash_attention").contains(&Json::Bool(false)) {
            return;
        }
        let types = self.list("/sweep/kv_cache_types").to_vec();
        for (index, kv_type) in types.iter().enumerate() {
            let Some(name) = kv_type.as_str().filter(|&name| name != "f16") else { continue };
            let key = format!("sweep.kv_cache_types[{index}]");
            let found = format!("{name} together with `flash_attention: false`");
            let problem = self.problems.add(self.place(&key), &key, found, "flash attention for a quantised cache");
            problem.hint = Some("sweep f16 without flash attention in an experiment of its own".to_owned());
        }
    }

    fn thresholds(&mut self) {
        for figure in ["write_once", "retention_s"] {
            let value = |class: &str| self.values.pointer(&format!("/analyser/thresholds/{class}_{figure}"))?.as_f64();
            let (Some(high), Some(medium)) = (value("high"), value("medium")) else { continue };
            if medium > high {
                let key = format!("analyser.thresholds.medium_{figure}");
                let found = format!("{medium}, above high_{figure} with {high}");
                let place =
                    self.places.get(&key).or_else(|| self.places.get(&format!("analyser.thresholds.high_{figure}")));
                let place = place.copied().unwrap_or(Place::START);
                self.problems.add(place, &key, found, "at most that of the class above");
            }
        }
    }

    /// Categories of the built-in prompts; those of a file are known when it is read.
    fn categories(&mut self) {
        if self.values.pointer("/prompts/source").and_then(Json::as_str) != Some(crate::PromptsConfig::BUILTIN) {
            return;
        }
        let categories = self.list("/prompts/categories").to_vec();
        for (index, category) in categories.iter().enumerate() {
            let Some(name) = category.as_str().filter(|name| !BUILTIN_CATEGORIES.contains(name)) else { continue };
            let key = format!("prompts.categories[{index}]");
            let needed = format!("one of {}", BUILTIN_CATEGORIES.join(", "));
            let problem = self.problems.add(self.place(&key), &key, format!("{name:?}"), needed);
            problem.nearest = nearest(name, BUILTIN_CATEGORIES.iter().copied());
        }
    }
}
