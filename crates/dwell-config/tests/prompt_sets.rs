//! Prompts: built-in ones, those of a file, and the actions made of them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{LEAST, experiment};
use dwell_config::{Combination, PromptError, PromptItem, actions, builtin_prompts, parse_prompts, select};
use dwell_events::Hint;
use dwell_events::engine::{Action, KvType};

const COMBINATION: Combination = Combination {
    context_length: 1024,
    batch_size: 2,
    output_tokens: 10,
    kv_type: KvType::F16,
    flash_attention: true,
    threads: 1,
    start: dwell_events::server::StartKind::AsFound,
};

fn refused(text: &str) -> Vec<(u64, String)> {
    let error = parse_prompts(text, Path::new("p.yaml")).unwrap_err();
    error.problems.into_iter().map(|problem| (problem.line, problem.key)).collect()
}

#[test]
fn the_built_in_prompts_are_of_four_kinds() {
    let prompts = builtin_prompts();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    prompts.iter().for_each(|prompt| *kinds.entry(&prompt.category).or_default() += 1);
    assert_eq!(kinds, BTreeMap::from([("follow_up", 2), ("generation", 1), ("long", 2), ("short", 2)]));
    let words = |prompt: &PromptItem| prompt.text.split_whitespace().count();
    assert!(prompts.iter().filter(|prompt| prompt.category == "short").all(|prompt| words(prompt) < 20));
    assert!(prompts.iter().filter(|prompt| prompt.category == "follow_up").all(|prompt| prompt.follow_ups.len() >= 2));
    let long = select(&prompts, &["long".to_owned()]).unwrap();
    assert!((250..=400).contains(&words(&long[0])), "{}", words(&long[0]));
    assert_eq!(long[1].fill_context, Some(0.75));
    let mut ids: Vec<&str> = prompts.iter().map(|prompt| prompt.id.as_str()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 7);
}

#[test]
fn every_built_in_category_can_be_chosen_in_a_file() {
    for prompt in builtin_prompts() {
        let all = experiment(&format!("{LEAST}prompts: {{categories: [{}]}}", prompt.category));
        assert_eq!(all.prompts.categories, [prompt.category]);
    }
}

#[test]
fn a_prompt_file_is_read_with_its_defaults() {
    let text = "- {id: a, category: c, text: Hello}\n- id: b\n  category: d\n  text: T\n  follow_ups: [x, x]\n  fill_context: 0.5\n";
    let prompts = parse_prompts(text, Path::new("p.yaml")).unwrap();
    assert_eq!((prompts[0].follow_ups.len(), prompts[0].fill_context), (0, None));
    assert_eq!((prompts[1].follow_ups.len(), prompts[1].fill_context), (2, Some(0.5)));
}

#[test]
fn what_is_wrong_with_a_prompt_file_is_told() {
    let place = |line, key: &str| (line, key.to_owned());
    assert_eq!(refused(""), [place(1, "")]);
    assert_eq!(refused("[]"), [place(1, "")]);
    assert_eq!(refused("id: a\n"), [place(1, "")]);
    assert_eq!(refused("- {id: a, category: c, text: ' '}\n"), [place(1, "[0].text")]);
    let text = "- {id: a, category: c, txt: Hello}\n- {id: a, category: c, text: T, fill_context: 1.5}\n";
    let wanted = [place(1, "[0].text"), place(1, "[0].txt"), place(2, "[1].id"), place(2, "[1].fill_context")];
    assert_eq!(refused(text), wanted);
}

#[test]
fn an_unknown_category_names_the_nearest() {
    let error = select(&builtin_prompts(), &["folow_up".to_owned()]).unwrap_err();
    let PromptError::UnknownCategory { nearest, known, .. } = &error else { panic!("{error}") };
    assert_eq!((nearest.as_deref(), known.len()), (Some("follow_up"), 4));
    assert_eq!(error.hints(), ["did you mean `follow_up`?"]);
    assert_eq!(select(&builtin_prompts(), &[]).unwrap().len(), 7);
}

#[test]
fn actions_ask_answer_follow_up_and_empty_the_cache_between_prompts() {
    let item = |text: &str, follow_ups: &[&str], fill_context| PromptItem {
        id: text.to_owned(),
        category: "c".to_owned(),
        text: text.to_owned(),
        follow_ups: follow_ups.iter().map(|&text| text.to_owned()).collect(),
        fill_context,
    };
    let prompt =
        |text: &str, fill_to_tokens| Action::Prompt { text: text.to_owned(), sequences: vec![0, 1], fill_to_tokens };
    let generate = || Action::Generate { max_tokens: 10, sequences: vec![0, 1] };
    let remove = |sequence| Action::Remove { sequence, from: 0, to: -1 };
    // Half of the 512 positions of a sequence, less the answer.
    let fill = Some(256 - 10);
    let wanted = vec![
        prompt("a", None),
        generate(),
        prompt("b", None),
        generate(),
        remove(0),
        remove(1),
        prompt("c", fill),
        generate(),
    ];
    assert_eq!(actions(&[item("a", &["b"], None), item("c", &[], Some(0.5))], &COMBINATION, None), wanted);
    assert_eq!(actions(&[], &COMBINATION, None), []);
}

#[test]
fn a_prompt_fills_no_more_than_the_model_was_trained_for() {
    let item = PromptItem { fill_context: Some(0.5), ..builtin_prompts().remove(0) };
    let filled = |trained| match &actions(std::slice::from_ref(&item), &COMBINATION, Some(trained))[0] {
        Action::Prompt { fill_to_tokens, .. } => fill_to_tokens.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((filled(4096), filled(512), filled(200)), (256 - 10, 256 - 10, 100 - 10));
}

#[test]
fn a_fill_that_the_answer_leaves_no_room_for_is_one_token() {
    let item = PromptItem { fill_context: Some(0.01), ..builtin_prompts().remove(0) };
    let Action::Prompt { fill_to_tokens, .. } = &actions(&[item], &COMBINATION, None)[0] else {
        panic!("a prompt comes first")
    };
    assert_eq!(*fill_to_tokens, Some(1));
}
