//! `dwell trace -- COMMAND`: programs as they are, with ggml and without.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alloc;
mod asked;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod fallbacks;
mod packages;
mod page_faults;
mod pages;
mod processes;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::{Run, Workplace, dwell, text_of};

/// `dwell trace` of a command, into a folder of a test.
fn trace(place: &Workplace, options: &[&str], command: &[&str]) -> Command {
    let mut trace = dwell();
    trace.arg("trace").arg("--output").arg(place.path().join("results"));
    trace.args(["--model-id", "traced", "--run-id", "run", "--baseline-secs", "0", "--sample-interval-ms", "20"]);
    trace.args(options).arg("--").args(command);
    trace
}

/// The run that it makes.
fn traced_run(place: &Workplace) -> Run {
    Run { dir: place.path().join("results/traced/run") }
}

/// The run of a trace that has to succeed.
fn done(place: &Workplace, mut command: Command) -> (Run, Output) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let run = traced_run(place);
    let verified = dwell().arg("verify").arg(&run.dir).output().unwrap();
    assert!(verified.status.success(), "{}", text_of(&verified));
    (run, output)
}

/// Python with llama-cpp-python, as `scripts/fetch-llama-cpp-python.sh` installs it.
fn python_with_llama(test: &str) -> Option<PathBuf> {
    let python = common::cached("venv-llama-cpp/bin/python");
    if python.is_none() {
        common::skip(test, "llama-cpp-python is not in the cache (scripts/fetch-llama-cpp-python.sh gets it)");
    }
    python
}
