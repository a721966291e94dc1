//! llama.cpp's program that answers once and ends.

use std::path::Path;
use std::process::Command;

use crate::common::{Run, RunningServer, Workplace, llama_program, text_of};
use crate::lab::{Moved, Theory, answer, assert_steps_exact, assert_usable, recorded_pids, samples, started, tiny};

/// Whether the program ended before its words were out: one run in ten does, traced or not.
fn was_cut(run: &Run) -> bool {
    let figures = std::fs::read_to_string(run.dir.join("server_metrics.csv")).unwrap_or_default();
    figures.lines().any(|line| line.contains("llama_cli:output_was_cut") && line.ends_with(",1"))
}

/// The run of a program that may end before any of its words are out: then it lacks them, and nothing else.
fn heard_or_not(place: &Workplace, model: &Path, mut command: Command) -> Run {
    let output = command.output().unwrap();
    let run = place.opened_run(model);
    match output.status.code() {
        Some(0) => assert_eq!(run.metadata()["state"], "complete", "{}", text_of(&output)),
        Some(1) => assert!(run.losses().iter().any(|(kind, _)| kind == "missing_answers"), "{}", text_of(&output)),
        _ => panic!("{}", text_of(&output)),
    }
    assert_usable(&run);
    run
}

#[test]
fn a_program_that_answers_once_is_traced_exactly() {
    let name = "a_program_that_answers_once_is_traced_exactly";
    let Some((program, server)) = llama_program(name, "llama-completion").zip(llama_program(name, "llama-server"))
    else {
        return;
    };
    let model_place = Workplace::new();
    let model = model_place.model(tiny());
    let arguments = ["--prompt", "hello", "--max-tokens", "16", "--ignore-end", "--sample-interval-ms", "5"];
    // What is computed is traced whether the words come out or not; one in many runs has its words.
    for _ in 0..20 {
        let place = Workplace::new();
        let run = heard_or_not(&place, &model, started(&place, &model, "llama_cli", &program, &arguments));
        // It computes before it is seen that the model is loaded; that counts from the prompt on. A warm-up of two tokens
        // comes before it.
        let (moved, theory) = (Moved::in_generation(&run), Theory::of(&model, "f16"));
        assert_eq!(moved.stored("kv_cache", 0), 6 * theory.kv_bytes);
        assert_eq!(Moved::in_all(&run).stored("kv_cache", 0), (2 + 6) * theory.kv_bytes);
        assert_steps_exact(&moved, &theory, 6, 16);
        let [pid] = recorded_pids(&run).into_iter().collect::<Vec<_>>()[..] else { panic!("one program computes") };
        assert!(samples(&run).iter().any(|sample| sample.label == "server" && sample.pid == pid));
        if was_cut(&run) || run.metadata()["state"] != "complete" {
            continue;
        }
        let request = &run.metadata()["requests"][0];
        assert_eq!((&request["prompt_tokens"], &request["generated_tokens"]), (&6.into(), &16.into()));
        let (text, _) = RunningServer::start(&server, &model).completion("hello", 16);
        let cut = |text: &str| text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
        assert_eq!(cut(&answer(&run)), cut(&text));
        return;
    }
    panic!("the program never wrote its text to the end");
}
