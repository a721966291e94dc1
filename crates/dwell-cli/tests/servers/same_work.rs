//! Engines that are asked the same compute the same tokens: dwell fills the model's chat template itself.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Workplace, cached, dwell, llama_program, skip, text_of};
use crate::lab::{done, started};
use crate::ollama;

const MODEL: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
const ASKED: [&str; 4] = ["--prompt", "Why is the sky blue?", "--max-tokens", "6"];

/// The trained model, which has a chat template, or a note that the test cannot run here.
fn model(test: &str) -> Option<PathBuf> {
    let found = cached(MODEL);
    if found.is_none() {
        skip(test, "the default model is not in the cache (scripts/setup.sh test gets it)");
    }
    found
}

fn prompt_tokens(metadata: &Value) -> u64 {
    metadata["generation"]["prompt_tokens"].as_u64().unwrap()
}

/// What the embedded engine says of a run that answers the question.
fn embedded(model: &Path, options: &[&str]) -> Value {
    Workplace::new().run(model, &[&ASKED[..], options].concat()).metadata()
}

#[test]
fn llama_server_is_sent_what_the_embedded_engine_computes() {
    let test = "llama_server_is_sent_what_the_embedded_engine_computes";
    let Some((program, model)) = llama_program(test, "llama-server").zip(model(test)) else { return };
    let expected = embedded(&model, &[]);
    let plain = prompt_tokens(&embedded(&model, &["--chat-template", "off"]));
    assert!(prompt_tokens(&expected) > plain, "the template puts words around the message");
    let asked = |options: &[&str]| {
        let place = Workplace::new();
        let run =
            done(&place, &model, started(&place, &model, "llama_server", &program, &[&ASKED[..], options].concat()));
        run.metadata()
    };
    let same = asked(&[]);
    assert_eq!(prompt_tokens(&same), prompt_tokens(&expected), "the same tokens by default");
    assert_eq!((&same["options"]["chat_template"], &same["options"]["template_by"]), (&true.into(), &"dwell".into()));
    let own = asked(&["--api", "chat"]);
    assert!(prompt_tokens(&own) > prompt_tokens(&expected), "the server's own template has a system message");
    assert_eq!(own["options"]["template_by"], "server");
    let raw = asked(&["--api", "completion"]);
    assert_eq!((prompt_tokens(&raw), &raw["options"]["chat_template"]), (plain, &false.into()));
}

#[test]
fn llama_completion_is_sent_what_the_embedded_engine_computes() {
    let test = "llama_completion_is_sent_what_the_embedded_engine_computes";
    let Some((program, model)) = llama_program(test, "llama-completion").zip(model(test)) else { return };
    let place = Workplace::new();
    let run = done(&place, &model, started(&place, &model, "llama_cli", &program, &ASKED));
    assert_eq!(prompt_tokens(&run.metadata()), prompt_tokens(&embedded(&model, &[])));
}

#[test]
fn ollama_is_sent_what_the_embedded_engine_computes() {
    let test = "ollama_is_sent_what_the_embedded_engine_computes";
    let Some((program, model)) = ollama::program(test).zip(model(test)) else { return };
    let place = Workplace::new();
    let mut command = started(&place, &model, "ollama", &program, &ASKED);
    command.env("HOME", place.path()).env("OLLAMA_NO_CLOUD", "1");
    let run = done(&place, &model, command);
    assert_eq!(prompt_tokens(&run.metadata()), prompt_tokens(&embedded(&model, &[])));
    assert_eq!(run.metadata()["options"]["template_by"], "dwell");
}

#[test]
fn a_comparison_says_where_a_server_had_its_own_template() {
    let test = "a_comparison_says_where_a_server_had_its_own_template";
    let Some((program, model)) = llama_program(test, "llama-server").zip(model(test)) else { return };
    let place = Workplace::new();
    let compared = |options: &[&str]| {
        let place_of = |engine: &str| place.path().join(engine);
        let mut command = dwell();
        command.arg("run").arg("--model").arg(&model).arg("-o").arg(place_of("results")).args(ASKED).args(options);
        command.args(["--threads", "1", "--context-length", "256", "--baseline-secs", "0"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        dwell().arg("compare").arg(place_of("results")).output().unwrap()
    };
    let program = program.to_str().unwrap();
    compared(&["--run-id", "a"]);
    let output = compared(&["--run-id", "b", "--engine", "llama_server", "--program", program]);
    let said = text_of(&output);
    assert!(said.contains("prompt tokens") && !said.contains("prompts differ in length"), "{said}");
    let output = compared(&["--run-id", "c", "--engine", "llama_server", "--program", program, "--api", "chat"]);
    let said = text_of(&output);
    assert!(said.contains("note: prompts differ in length at context 256"), "{said}");
    // Of the embedded engine too, llama.cpp says what it allocates to compute in.
    let compute = said.lines().find(|line| line.starts_with("  compute")).unwrap();
    assert!(!compute.contains('–'), "{said}");
    let rest = said.lines().find(|line| line.starts_with("  unaccounted")).unwrap();
    assert!(!rest.contains('−'), "{said}");
}
