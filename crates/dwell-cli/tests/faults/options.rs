//! Arguments and input files that make no run.

use std::fs;

use crate::common::Workplace;
use crate::models::{slow_model, small_model};
use crate::outcome::{assert_nothing_is_left, assert_refused};

/// Runs the small model with arguments that must be refused.
fn assert_arguments_are_refused(arguments: &[&str], error: &str, hints: &[&str]) {
    let work = Workplace::new();
    let output = work.run_command(&small_model(), arguments).output().unwrap();
    assert_refused(&output, error, hints);
    assert_nothing_is_left(&work);
}

#[test]
fn options_that_nothing_can_be_computed_with_are_refused() {
    let quantised = &["--prompt", "hello", "--kv-type-v", "q8_0", "--flash-attention", "off"][..];
    let cases: [(&[&str], &str, &str); 9] = [
        (&["--prompt", "hello", "--batch-size", "0"], "batch_size is 0", "--batch-size 1 or more"),
        (&["--prompt", "hello", "--micro-batch-size", "0"], "micro_batch_size is 0", "--micro-batch-size 1 or more"),
        (&["--prompt", "hello", "--parallel", "0"], "parallel is 0, 1 to 64 are possible", "--parallel 1"),
        (&["--prompt", "hello", "--parallel", "65"], "parallel is 65, 1 to 64 are possible", "--parallel 64"),
        (&["--prompt", "hello", "--parallel", "4294967295"], "1 to 64 are possible", "--parallel 64"),
        (&["--prompt", "hello", "--temperature", "NaN"], "temperature is NaN", "--temperature 0"),
        (&["--prompt", "hello", "--temperature", "-1"], "temperature is -1", "--temperature 0"),
        (&["--prompt", "hello", "--baseline-secs", "-1"], "baseline-secs is -1", "--baseline-secs 2"),
        (quantised, "kv_type_v is q8_0 without flash attention", "--kv-type-v f16"),
    ];
    for (arguments, error, hint) in cases {
        assert_arguments_are_refused(arguments, error, &[hint]);
    }
}

#[test]
fn a_prompt_that_is_empty_or_too_long_is_refused() {
    assert_arguments_are_refused(&["--prompt", ""], "found no text", &["give a text with --prompt"]);
    let long = "word ".repeat(300);
    let hint = "use a larger --context-length or a shorter prompt";
    assert_arguments_are_refused(&["--prompt", &long], "256 of 256 are free", &[hint]);
}

#[test]
fn a_prompt_file_that_cannot_be_read_is_refused() {
    let work = Workplace::new();
    let binary = work.path().join("binary");
    fs::write(&binary, [0xff, 0xfe, 0x80]).unwrap();
    let text = "give a file of UTF-8 text";
    let missing = work.path().join("missing");
    for (path, hint) in [(&*binary, text), (&*missing, "check the path: ls -l "), (work.path(), text)] {
        let arguments = ["--prompt-file", path.to_str().unwrap()];
        assert_arguments_are_refused(&arguments, "reading the prompt failed with", &[hint]);
    }
}

#[test]
fn an_actions_file_that_makes_no_sense_is_refused() {
    let work = Workplace::new();
    let path = work.path().join("actions.json");
    let cases = [
        ("", "reading the actions failed with EOF", "an action looks like"),
        (r#"[{"do": "dance"}]"#, "unknown variant `dance`", "an action looks like"),
        (r#"[{"do": "generate"}]"#, "missing field `max_tokens`", "an action looks like"),
        ("[]", "reading the actions found none", "an action looks like"),
        (r#"[{"do": "generate", "max_tokens": 1, "sequences": [0]}]"#, "generating for sequence 0", "put a prompt"),
    ];
    for (text, error, hint) in cases {
        fs::write(&path, text).unwrap();
        assert_arguments_are_refused(&["--actions", path.to_str().unwrap()], error, &[hint]);
    }
    fs::write(&path, r#"[{"do": "remove", "sequence": 3, "from": 0, "to": -1}]"#).unwrap();
    assert_arguments_are_refused(&["--actions", path.to_str().unwrap()], "it names sequence 3", &[]);
    let missing = work.path().join("missing.json");
    let arguments = ["--actions", missing.to_str().unwrap()];
    assert_arguments_are_refused(
        &arguments,
        "reading the actions failed with No such file",
        &["check the path: ls -l "],
    );
}

#[test]
fn a_context_that_does_not_fit_into_memory_is_refused_with_one_that_does() {
    let work = Workplace::new();
    let mut command = crate::common::dwell();
    command.arg("run").arg("--model").arg(slow_model()).arg("--output").arg(work.path().join("results"));
    let output = command.args(["--prompt", "hello", "--context-length", "1073741824"]).output().unwrap();
    assert_refused(
        &output,
        "making the context: a cache of 1073741824 positions needs at least",
        &["--context-length "],
    );
    assert_nothing_is_left(&work);
}
