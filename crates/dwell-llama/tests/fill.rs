//! Prompts of an exact number of tokens.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{TestModel, Told, filled_prompt, generate, prompt, refuse, run};
use dwell_events::Hint;
use dwell_events::engine::{Action, EngineEvent};
use dwell_llama::EngineError;

/// A made model has one token per byte, and one at the beginning.
const TEXT: &str = "abcdefg";

/// Texts of the prompts' tokens, joined, with their number.
fn prompts(told: &Told) -> Vec<(usize, String)> {
    let prompt = |event: &EngineEvent| match event {
        EngineEvent::Prompt { tokens } => Some((tokens.len(), tokens.iter().map(|(_, text)| text.as_str()).collect())),
        _ => None,
    };
    told.events.iter().filter_map(prompt).collect()
}

#[test]
fn a_prompt_has_exactly_as_many_tokens_as_were_asked_for() {
    let model = TestModel::new();
    for tokens in [3, 7, 8, 9, 15, 100, 511, 512] {
        let told = run(model.options(), vec![filled_prompt(TEXT, &[0], tokens)]);
        let [(count, _)] = prompts(&told)[..] else { panic!("one prompt was asked for") };
        assert_eq!(count, tokens as usize);
        let computed = told.events.iter().map(|event| match event {
            EngineEvent::BatchBegins { tokens, .. } => tokens.len(),
            _ => 0,
        });
        assert_eq!(computed.sum::<usize>(), tokens as usize);
    }
}

#[test]
fn the_text_is_repeated_and_then_cut() {
    let model = TestModel::new();
    let plain = prompts(&run(model.options(), vec![prompt(TEXT, &[0])])).remove(0);
    let filled = prompts(&run(model.options(), vec![filled_prompt(TEXT, &[0], 2 * 8 + 3)])).remove(0);
    let begin = plain.1.strip_suffix(TEXT).unwrap();
    let body = filled.1.strip_prefix(begin).unwrap().replace(' ', "");
    assert!("abcdefgabcdefgabcdefg".starts_with(&body) && body.len() > 2 * TEXT.len(), "{filled:?}");
    assert!(!body.contains(begin.trim()), "the first token is there once: {filled:?}");
}

#[test]
fn a_text_filled_to_its_own_length_is_the_text() {
    let model = TestModel::new();
    for text in [TEXT, " a space on either side "] {
        let plain = run(model.options(), vec![prompt(text, &[0]), generate(5, &[0])]);
        let own_length = prompts(&plain)[0].0 as u32;
        let filled = run(model.options(), vec![filled_prompt(text, &[0], own_length), generate(5, &[0])]);
        assert_eq!(prompts(&plain), prompts(&filled));
        assert_eq!(plain.tokens(0), filled.tokens(0));
    }
}

#[test]
fn sequences_that_go_on_get_as_many_tokens_as_new_ones() {
    let model = TestModel::new();
    let mut options = model.options();
    options.parallel = 2;
    let told = run(options, vec![prompt(TEXT, &[0]), generate(2, &[0]), filled_prompt(TEXT, &[0, 1], 40)]);
    let counts: Vec<usize> = prompts(&told).iter().map(|(count, _)| *count).collect();
    assert_eq!(counts[1..], [40, 40]);
}

#[test]
fn an_emptied_sequence_is_filled_like_a_new_one() {
    let model = TestModel::new();
    let fresh = run(model.options(), vec![filled_prompt(TEXT, &[0], 300), generate(8, &[0])]);
    let emptied = vec![
        prompt("Something else", &[0]),
        generate(20, &[0]),
        Action::Remove { sequence: 0, from: 0, to: -1 },
        filled_prompt(TEXT, &[0], 300),
        generate(8, &[0]),
    ];
    let again = run(model.options(), emptied);
    assert_eq!(prompts(&fresh)[0], prompts(&again)[1]);
    assert_eq!(fresh.tokens(0), again.tokens(0)[20..]);
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let model = TestModel::new();
    let error = refuse(model.options(), vec![filled_prompt(TEXT, &[0], 1)]);
    assert!(matches!(error, EngineError::FillTooShort { wanted: 1, around: 1, .. }), "{error}");
    assert_eq!(error.hints(), ["--prompt-tokens 2 or more; of an action, fill_to_tokens 2"]);
    let error = refuse(model.options(), vec![filled_prompt("", &[0], 8)]);
    assert!(matches!(error, EngineError::FillTooShort { text: 0, .. }), "{error}");
    let error = refuse(model.options(), vec![filled_prompt(TEXT, &[0], u32::MAX)]);
    assert!(matches!(error, EngineError::PromptTooLong { needed: 0xffff_ffff, .. }), "{error}");
}
