//! Answers of llama-server: the same as without dwell, side by side, and one after the other.

use std::collections::BTreeSet;

use crate::common::{Run, RunningServer, Workplace, llama_program};
use crate::lab::{Moved, Theory, answer, assert_exact, assert_kv_bytes_of_tokens, done, started, tiny, tokens};

#[test]
fn an_answer_is_that_of_the_server_alone() {
    let Some(program) = llama_program("an_answer_is_that_of_the_server_alone", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(tiny());
    let (text, ids) = RunningServer::start(&program, &model).completion("hello", 24);
    let arguments = ["--prompt", "hello", "--max-tokens", "24", "--ignore-end"];
    let run = done(&place, &model, started(&place, &model, "llama_server", &program, &arguments));
    // A character that is not whole at the end is replaced by the server, or left out where it streams.
    let cut = |text: &str| text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
    assert_eq!(cut(&answer(&run)), cut(&text));
    let told = tokens(&run);
    assert_eq!(told.len(), ids.len());
    for (token, id) in told.iter().zip(&ids) {
        // A token that ends inside a character is told without its id.
        assert!(token.id.is_none_or(|told| i64::from(told) == *id), "{token:?}, and not {id}");
    }
    let known = told.iter().filter(|token| token.id.is_some()).count();
    assert!(known * 2 > ids.len(), "{known} of {} ids were told", ids.len());
    assert_exact(&run, &Theory::of(&model, "f16"), 6, 24);
}

#[test]
fn a_token_of_the_prompt_that_is_computed_by_itself_is_no_answer() {
    let name = "a_token_of_the_prompt_that_is_computed_by_itself_is_no_answer";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(tiny());
    // The prompt of 6 tokens is computed as 5 and 1.
    let arguments = ["--prompt", "hello", "--max-tokens", "8", "--ignore-end", "--micro-batch-size", "5"];
    let run = done(&place, &model, started(&place, &model, "llama_server", &program, &arguments));
    assert_exact(&run, &Theory::of(&model, "f16"), 6, 8);
    assert_kv_bytes_of_tokens(&run, &Theory::of(&model, "f16"), 6);
    assert_eq!(tokens(&run).iter().map(|token| token.step).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
}

#[test]
fn two_sequences_use_cells_of_their_own() {
    let Some(program) = llama_program("two_sequences_use_cells_of_their_own", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(tiny());
    let arguments = ["--prompt", "hello", "--max-tokens", "12", "--ignore-end", "--parallel", "2"];
    let run = done(&place, &model, started(&place, &model, "llama_server", &program, &arguments));
    let ids = |sequence| -> Vec<Option<i32>> {
        tokens(&run).into_iter().filter(|token| token.sequence == sequence).map(|token| token.id).collect()
    };
    assert_eq!((ids(0).len(), ids(0)), (12, ids(1)), "the same prompt has the same answer");
    let requests = run.metadata()["requests"].clone();
    assert_eq!(requests.as_array().unwrap().len(), 2);

    // Keys of the first layer that were not there before the requests: one per position and sequence.
    let first = requests[0]["begin_ns"].as_i64().unwrap();
    let keys: Vec<_> = run.blocks().into_iter().filter(|block| block.layer == 0 && block.kind == "k").collect();
    let served: Vec<_> = keys.iter().filter(|block| block.write_ns >= first).collect();
    let addresses: BTreeSet<u64> = served.iter().map(|block| block.address).collect();
    let cells: BTreeSet<u32> = served.iter().map(|block| block.cell).collect();
    let positions: BTreeSet<i32> = served.iter().filter_map(|block| block.position).collect();
    assert_eq!(positions, (0..17).collect(), "a prompt of 6 and 11 of the answer");
    assert_eq!((addresses.len(), cells.len()), (34, 34), "{cells:?}");

    let (moved, theory) = (Moved::in_generation(&run), Theory::of(&model, "f16"));
    let of_steps: u64 = (1..=40).map(|step| moved.stored("kv_cache", step)).sum();
    assert_eq!(moved.stored("kv_cache", 0) + of_steps, 34 * theory.kv_bytes);
    assert!(of_steps >= 20 * theory.kv_bytes, "answers side by side are decoded, not prompts");
    assert_steps_of_their_own(&run, &moved, &theory);
}

/// Every token after the first of an answer was given by a step of the trace that stored a cell, later than the one before.
/// The last of all came when the cells of both sequences were in the cache.
fn assert_steps_of_their_own(run: &Run, moved: &Moved, theory: &Theory) {
    let told = tokens(run);
    for sequence in [0, 1] {
        let steps: Vec<u32> = told.iter().filter(|token| token.sequence == sequence).map(|token| token.step).collect();
        assert!(steps[0] == 0 && steps.is_sorted_by(|one, next| one < next), "{steps:?}");
        assert!(steps[1..].iter().all(|&step| moved.stored("kv_cache", step) >= theory.kv_bytes), "{steps:?}");
    }
    let last = told.iter().max_by_key(|token| token.step).unwrap();
    assert_eq!((moved.stored("kv_cache", last.step + 1), last.kv_bytes), (0, Some(34 * theory.kv_bytes)));
}

#[test]
fn a_second_prompt_reuses_what_the_cache_holds() {
    let Some(program) = llama_program("a_second_prompt_reuses_what_the_cache_holds", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(tiny());
    let actions = place.path().join("actions.json");
    let list = serde_json::json!([
        {"do": "prompt", "text": "hello world, once more", "sequences": [0]},
        {"do": "generate", "max_tokens": 5, "sequences": [0]},
        {"do": "prompt", "text": " and then again", "sequences": [0]},
        {"do": "generate", "max_tokens": 4, "sequences": [0]},
    ]);
    std::fs::write(&actions, list.to_string()).unwrap();
    let arguments = ["--ignore-end", "--actions", actions.to_str().unwrap()];
    let run = done(&place, &model, started(&place, &model, "llama_server", &program, &arguments));
    let requests = run.metadata()["requests"].clone();
    let figure = |request: usize, name: &str| requests[request][name].as_u64().unwrap();
    let (first, second) = (figure(0, "prompt_tokens"), figure(1, "prompt_tokens"));
    let cached = figure(1, "cached_tokens");
    assert_eq!(figure(0, "cached_tokens"), 0);
    assert!(second > first && cached >= first, "the first prompt is in the cache: {requests}");

    let (moved, theory) = (Moved::in_generation(&run), Theory::of(&model, "f16"));
    assert_eq!(moved.stored("kv_cache", 0), (first + second - cached) * theory.kv_bytes, "only what is new is stored");
    // 4 steps of the first answer, 3 of the second.
    let held = |step: u64| if step <= 4 { first + step } else { second + step - 4 };
    for step in 1..=7 {
        assert_eq!(moved.stored("kv_cache", step), theory.kv_bytes, "step {step}");
        assert_eq!(moved.loaded("kv_cache", step), held(step.into()) * theory.kv_bytes, "step {step}");
    }
    let told = tokens(&run);
    let steps: Vec<u32> = told.iter().map(|token| token.step).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 0, 5, 6, 7], "as the trace numbers them");
    // The second prompt goes on after what is reused; cells beyond that are gone.
    let kv: Vec<u64> = told.iter().map(|token| token.kv_bytes.unwrap() / theory.kv_bytes).collect();
    assert_eq!(kv, (first..first + 5).chain(second..second + 4).collect::<Vec<_>>());
    assert_eq!((figure(1, "reused_tokens"), &requests[1]["reused_basis"]), (cached, &"exact".into()));
    let generation = run.metadata()["generation"].clone();
    assert_eq!(generation["cached_tokens"], cached);
    let computed = (first + second - cached) as f64 * 1e9 / generation["prompt_ns"].as_f64().unwrap();
    assert!((generation["prompt_tokens_per_s"].as_f64().unwrap() / computed - 1.0).abs() < 1e-9, "{generation}");
}
