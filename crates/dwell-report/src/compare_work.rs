//! Whether configurations that stand side by side did the same work.

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::engine::EngineKind;

use crate::compare::CompareGroup;
use crate::compare_figures::{GENERATED_TOKENS, PROMPT_TOKENS};
use crate::numbers::count;

/// Most configurations that are named in a note.
const NAMED_MAX: usize = 4;

/// Work that has to be equal.
struct Work {
    figure: &'static str,
    name: &'static str,
    /// What is not comparable if it differs.
    effect: &'static str,
    /// Why it may differ, or what makes it equal.
    remark: &'static str,
    /// Whether the remark is about servers only.
    is_of_servers: bool,
}

const WORK: [Work; 2] = [
    Work {
        figure: PROMPT_TOKENS,
        name: "prompts",
        effect: "times to first token and prompt speeds are of different work",
        remark: " (with `--api chat` a server puts the prompt into its own template)",
        is_of_servers: true,
    },
    Work {
        figure: GENERATED_TOKENS,
        name: "answers",
        effect: "memory and decode speeds are of different work",
        remark: " (`--ignore-end` makes answers equally long, where the engine has it)",
        is_of_servers: false,
    },
];

/// A note for every context length at which configurations differ in the tokens that they processed. `label` names a
/// configuration.
pub(crate) fn work_notes(groups: &[CompareGroup], label: &dyn Fn(&CompareGroup) -> String) -> Vec<String> {
    let mut by_context: BTreeMap<Option<u64>, Vec<&CompareGroup>> = BTreeMap::new();
    groups.iter().for_each(|group| by_context.entry(group.key.context_length).or_default().push(group));
    let notes = by_context.iter().flat_map(|(context_length, groups)| {
        let has_server = has_server(groups);
        WORK.iter().filter_map(move |Work { figure, name, effect, remark, is_of_servers }| {
            let place = context_length.map_or_else(String::new, |length| format!(" at context {length}"));
            let lengths = differing(groups, figure, label)?;
            let remark = if *is_of_servers && !has_server { "" } else { remark };
            Some(format!("{name} differ in length{place}: {lengths}; {effect}{remark}"))
        })
    });
    notes.collect()
}

/// Whether an engine is a program of its own, which may change the prompt.
fn has_server(groups: &[&CompareGroup]) -> bool {
    groups.iter().any(|group| !EngineKind::from_name(&group.key.engine).is_some_and(EngineKind::is_embedded))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;
    use crate::compare::CompareKey;

    fn group(engine: &str, prompt_tokens: f64) -> CompareGroup {
        CompareGroup {
            key: CompareKey { engine: engine.to_owned(), ..CompareKey::default() },
            figures: Spread::of([prompt_tokens]).map(|spread| (PROMPT_TOKENS, spread)).into_iter().collect(),
            ..CompareGroup::default()
        }
    }

    #[test]
    fn the_template_of_a_server_is_named_only_if_there_is_a_server() {
        let notes = |engines: [&str; 2]| {
            let groups = [group(engines[0], 3.0), group(engines[1], 30.0)];
            work_notes(&groups, &|group| group.key.engine.clone()).join("\n")
        };
        assert!(notes(["llama_cpp", "llama_server"]).ends_with("own template)"));
        let embedded = notes(["llama_cpp", "llama_cpp"]);
        assert!(embedded.ends_with("are of different work"), "{embedded}");
    }
}
