//! Whether configurations that stand side by side did the same work.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::CompareGroup;
use crate::compare_figures::{GENERATED_TOKENS, PROMPT_TOKENS};
use crate::numbers::count;

/// Most configurations that are named in a note.
const NAMED_MAX: usize = 4;

/// Work that has to be equal: the figure, what it is called, and what is not comparable if it differs.
const WORK: [(&str, &str, &str); 2] = [
    (
        PROMPT_TOKENS,
        "prompts",
        "times to first token and prompt speeds are of different work (with `--api chat` a server puts the prompt into its \
         own template)",
    ),
    (
        GENERATED_TOKENS,
        "answers",
        "memory and decode speeds are of different work (`--ignore-end` makes answers equally long, where the engine has it)",
    ),
];

/// A note for every context length at which configurations differ in the tokens that they processed. `label` names a
/// configuration.
pub(crate) fn work_notes(groups: &[CompareGroup], label: &dyn Fn(&CompareGroup) -> String) -> Vec<String> {
    let mut by_context: BTreeMap<Option<u64>, Vec<&CompareGroup>> = BTreeMap::new();
    groups.iter().for_each(|group| by_context.entry(group.key.context_length).or_default().push(group));
    let notes = by_context.iter().flat_map(|(context_length, groups)| {
        WORK.iter().filter_map(|&(figure, name, effect)| {
            let place = context_length.map_or_else(String::new, |length| format!(" at context {length}"));
            let lengths = differing(groups, figure, label)?;
            Some(format!("{name} differ in length{place}: {lengths}; {effect}"))
        })
    });
    notes.collect()
}

/// The numbers of tokens, if they are not all the same.
fn differing(groups: &[&CompareGroup], figure: &str, label: &dyn Fn(&CompareGroup) -> String) -> Option<String> {
    let tokens = |group: &&CompareGroup| Some((label(group), group.figures.get(figure)?.median as u64));
    let known: Vec<(String, u64)> = groups.iter().filter_map(tokens).collect();
    let distinct: BTreeSet<u64> = known.iter().map(|(_, tokens)| *tokens).collect();
    let (least, most) = (distinct.first()?, distinct.last()?);
    if least == most {
        return None;
    }
    if known.len() > NAMED_MAX {
        return Some(format!("{} to {} tokens", count(*least), count(*most)));
    }
    let named = known.iter().map(|(label, tokens)| format!("{} tokens in {label}", count(*tokens)));
    Some(named.collect::<Vec<_>>().join(", "))
}
