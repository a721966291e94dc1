//! What cannot be done is said before anything is recorded, with what to do about it.

use crate::common::Workplace;
use crate::lab::{assert_refused, command, started, tiny};
use crate::ollama;

#[test]
fn an_address_where_nothing_listens_is_refused() {
    let place = Workplace::new();
    let model = place.model(tiny());
    for engine in ["openai", "llama_server", "vllm", "sglang", "ollama"] {
        let output = command(&place, &model, engine, &["--url", "http://127.0.0.1:9"]).output().unwrap();
        assert_refused(&place, &output, "http://127.0.0.1:9", "--url http://HOST:PORT");
    }
}

#[test]
fn a_program_that_is_missing_or_no_server_is_refused() {
    let place = Workplace::new();
    let model = place.model(tiny());
    let refused = |engine: &str, program: &str, error: &str, hint: &str| {
        let output = started(&place, &model, engine, program.as_ref(), &[]).output().unwrap();
        assert_refused(&place, &output, error, hint);
    };
    for engine in ["llama_server", "llama_cli", "ollama"] {
        refused(engine, "/no/such/program", "nothing is there, a program is needed", "--program PATH");
    }
    for program in ["/bin/true", "/bin/cat"] {
        refused("llama_server", program, "its --help names no option -m", "--program PATH");
        refused("ollama", program, "the program ended with exit code", "");
    }
    let output = command(&place, &model, "llama_server", &[]).env("PATH", place.path()).output().unwrap();
    assert_refused(&place, &output, "found none of llama-server", "--program PATH");
}

#[test]
fn a_model_that_ollama_does_not_have_is_refused_with_how_to_get_it() {
    let Some(program) = ollama::program("a_model_that_ollama_does_not_have_is_refused_with_how_to_get_it") else {
        return;
    };
    let place = Workplace::new();
    let output = ollama::command(&place, "nosuch".as_ref(), &program, &[]).output().unwrap();
    assert_refused(&place, &output, "asking ollama for the model \"nosuch\"", "ollama pull nosuch");
}
