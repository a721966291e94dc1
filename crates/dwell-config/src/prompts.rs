//! Prompts: those that dwell has, those of a file, and what an engine has to do for them.

use std::path::Path;

use dwell_events::Hint;
use dwell_events::engine::Action;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Combination;
use crate::builtin_prompts::BUILTIN;
use crate::check::Checker;
use crate::key_table::key;
use crate::keys::{DefaultValue, Key, Kind, ListRule};
use crate::problem::{ConfigError, Problems, nearest};
use crate::yaml::{self, Place};

pub(crate) use crate::builtin_prompts::BUILTIN_CATEGORIES;

/// One prompt with what follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptItem {
    /// Name, unique among the prompts.
    pub id: String,
    /// Kind of prompt that it is chosen by.
    pub category: String,
    /// The text.
    pub text: String,
    /// What is asked after each answer, on top of what is in the KV cache.
    pub follow_ups: Vec<String>,
    /// Share of a sequence's context that the text, repeated, and its answer are to fill.
    pub fill_context: Option<f64>,
}

/// Every key of a prompt, in the order of the documentation.
pub fn prompt_keys() -> &'static [Key] {
    KEYS
}

const KEYS: &[Key] = &[
    key("[].id", Kind::PlainName, DefaultValue::Required, "names the prompt; unique in the file"),
    key("[].category", Kind::PlainName, DefaultValue::Required, "is what `prompts.categories` chooses by"),
    key("[].text", Kind::FilledText, DefaultValue::Required, "is what the model is asked first"),
    key(
        "[].follow_ups",
        Kind::List(&Kind::FilledText, ListRule::Any),
        DefaultValue::Texts(&[]),
        "are asked after each answer; the KV cache of everything before is kept",
    ),
    key(
        "[].fill_context",
        Kind::Number(0.01, 1.0),
        DefaultValue::Absent("the text as it is"),
        "repeats the text until it and its answer fill this share of a sequence's context",
    ),
];

/// Why prompts cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PromptError {
    /// No prompt has this category.
    #[error("choosing prompts found no category {found:?}, needed one of {}", known.join(", "))]
    UnknownCategory {
        /// The category asked for.
        found: String,
        /// Categories that there are.
        known: Vec<String>,
        /// The one that is most like it.
        nearest: Option<String>,
    },
}

impl Hint for PromptError {
    fn hints(&self) -> Vec<String> {
        match self {
            PromptError::UnknownCategory { nearest, .. } => {
                nearest.iter().map(|nearest| format!("did you mean `{nearest}`?")).collect()
            }
        }
    }
}

/// The prompts that dwell has.
pub fn builtin_prompts() -> Vec<PromptItem> {
    let owned = |prompt: &crate::builtin_prompts::BuiltinPrompt| PromptItem {
        id: prompt.id.to_owned(),
        category: prompt.category.to_owned(),
        text: prompt.text.to_owned(),
        follow_ups: prompt.follow_ups.iter().map(|&text| text.to_owned()).collect(),
        fill_context: prompt.fill_context,
    };
    BUILTIN.iter().map(owned).collect()
}

/// Reads a prompt file: a YAML list with the keys of [`prompt_keys`].
pub fn parse_prompts(text: &str, file: &Path) -> Result<Vec<PromptItem>, ConfigError> {
    let mut problems = Problems::new(file);
    let root = match yaml::read(text) {
        Ok((root, None)) => root,
        Ok((root, Some(duplicate))) => {
            problems.add_fault(&duplicate);
            root
        }
        Err(fault) => {
            problems.add_fault(&fault);
            return Err(problems.into_error());
        }
    };
    let mut checker = Checker::new(KEYS, &mut problems);
    let values = checker.groups("[].", "", Some(&root), Place::START);
    let places = checker.places;
    let ids: Vec<Option<&str>> =
        values.as_array().into_iter().flatten().map(|value| value.get("id")?.as_str()).collect();
    for (index, id) in ids.iter().enumerate() {
        if let Some(id) = id.filter(|_| ids[..index].contains(id)) {
            let key = format!("[{index}].id");
            let place = places.get(&key).copied().unwrap_or(Place::START);
            problems.add(place, &key, format!("the id {id:?} a second time"), "an id of its own for each prompt");
        }
    }
    problems.finish(values)
}

/// The prompts of these categories, in their order; all of them if no category is given.
pub fn select(prompts: &[PromptItem], categories: &[String]) -> Result<Vec<PromptItem>, PromptError> {
    let mut known: Vec<String> = prompts.iter().map(|prompt| prompt.category.clone()).collect();
    known.sort();
    known.dedup();
    if let Some(found) = categories.iter().find(|&category| !known.contains(category)) {
        let nearest = nearest(found, known.iter().map(String::as_str));
        return Err(PromptError::UnknownCategory { found: found.clone(), known, nearest });
    }
    let is_chosen = |prompt: &&PromptItem| categories.is_empty() || categories.contains(&prompt.category);
    Ok(prompts.iter().filter(is_chosen).cloned().collect())
}

/// What an engine has to do for these prompts: each with its follow-ups on every sequence, then the sequences are
/// emptied for the next. No prompt is filled beyond the context that the model was trained for, where that is known:
/// servers refuse such prompts.
pub fn actions(prompts: &[PromptItem], combination: &Combination, trained_context: Option<u32>) -> Vec<Action> {
    let sequences: Vec<i32> = (0..combination.batch_size.cast_signed()).collect();
    let generate = Action::Generate { max_tokens: combination.output_tokens, sequences: sequences.clone() };
    let ask = |text: &str, fill_to_tokens| {
        let prompt = Action::Prompt { text: text.to_owned(), sequences: sequences.clone(), fill_to_tokens };
        [prompt, generate.clone()]
    };
    let mut actions = Vec::new();
    for (index, prompt) in prompts.iter().enumerate() {
        if index > 0 {
            actions.extend(sequences.iter().map(|&sequence| Action::Remove { sequence, from: 0, to: -1 }));
        }
        let fill_to_tokens = prompt.fill_context.map(|share| fill_to_tokens(share, combination, trained_context));
        actions.extend(ask(&prompt.text, fill_to_tokens));
        actions.extend(prompt.follow_ups.iter().flat_map(|text| ask(text, None)));
    }
    actions
}

/// Tokens of a prompt that, with its answer, fills this share of a sequence's context.
fn fill_to_tokens(share: f64, combination: &Combination, trained_context: Option<u32>) -> u32 {
    let context_per_sequence = combination.context_length / combination.batch_size.max(1);
    let context_per_sequence = context_per_sequence.min(trained_context.unwrap_or(u32::MAX));
    let filled = (share * f64::from(context_per_sequence)).floor() as u32;
    filled.saturating_sub(combination.output_tokens).max(1)
}
