//! Standard output and standard error, also when nobody reads them.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::common::{Workplace, dwell, text_of};
use crate::models::small_model;
use crate::outcome::{assert_no_panic, assert_sealed};

fn command(work: &Workplace, arguments: &[&str]) -> Command {
    let mut command = work.run_command(&small_model(), &["--prompt", "hello", "--max-tokens", "20", "--ignore-end"]);
    command.args(arguments);
    command
}

/// Runs with one of the streams closed from the beginning.
fn output_unread(mut command: Command, close: impl FnOnce(&mut std::process::Child)) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    close(&mut child);
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_that_goes_away_costs_nothing() {
    let work = Workplace::new();
    let output = output_unread(command(&work, &[]), |child| drop(child.stdout.take()));
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_no_panic(&output);
    assert_sealed(&work.opened_run(&small_model()));
}

#[test]
fn a_closed_standard_error_costs_nothing() {
    let work = Workplace::new();
    let output = output_unread(command(&work, &[]), |child| drop(child.stderr.take()));
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(output.stdout.starts_with(b"model "), "{}", text_of(&output));
    assert_sealed(&work.opened_run(&small_model()));
}

#[test]
fn an_error_with_a_closed_standard_error_keeps_its_exit_code() {
    let work = Workplace::new();
    let refused = work.run_command(&work.path().join("missing.gguf"), &[]);
    let output = output_unread(refused, |child| drop(child.stderr.take()));
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
}

#[test]
fn a_result_that_cannot_be_printed_is_said_and_the_run_is_whole() {
    let work = Workplace::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(&work, &[]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let run = work.opened_run(&small_model());
    let said = String::from_utf8(output.stderr).unwrap();
    let wanted = format!(
        "error: printing the result failed with No space left on device (os error 28); the work itself is done: {:?}\n",
        run.dir
    );
    assert!(said.ends_with(&wanted), "{said}");
    assert_sealed(&run);
}

#[test]
fn every_command_that_leaves_files_tells_them_from_a_result_that_did_not_arrive() {
    let work = Workplace::new();
    assert!(command(&work, &[]).output().unwrap().status.success());
    let run = work.opened_run(&small_model()).dir;
    let run = run.to_str().unwrap();
    let code = |arguments: &[&str]| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = dwell().args(arguments).current_dir(work.path()).stdout(full).output().unwrap();
        (output.status.code(), text_of(&output))
    };
    for with_files in [
        &["compare", run, "-o", "compared"][..],
        &["analyse", "results", "--include", "contaminated", "-o", "analysed"],
        &["man", "-o", "man"],
        &["report", run],
        &["export", run, "--format", "perfetto", "-o", "trace.pftrace"],
    ] {
        let (code, said) = code(with_files);
        assert_eq!(code, Some(1), "{with_files:?}: {said}");
        assert!(said.contains("; the work itself is done: "), "{said}");
    }
    for with_result_alone in [&["compare", run][..], &["analyse", run], &["show", run], &["ls", "results"]] {
        let (code, said) = code(with_result_alone);
        assert_eq!(code, Some(2), "{with_result_alone:?}: {said}");
    }
}

#[test]
fn standard_output_has_the_summary_and_standard_error_the_text() {
    let work = Workplace::new();
    let output = command(&work, &[]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("model "), "{stdout}");
    let dir = work.opened_run(&small_model()).dir;
    let last: Vec<&str> = stdout.lines().rev().take(2).collect();
    assert_eq!(last, [dir.join("report.html").to_str().unwrap(), dir.to_str().unwrap()]);
    let tokens = work.opened_run(&small_model()).batches(dwell_events::schema::Table::Tokens);
    let generated = crate::common::text(&tokens[0], "text", tokens[0].num_rows() - 2);
    assert!(stderr.contains(&generated), "{generated:?} is missing: {stderr}");
}

#[test]
fn with_json_there_is_nothing_but_json() {
    let work = Workplace::new();
    let output = command(&work, &["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["state"], "complete");
    assert!(output.stderr.is_empty(), "{}", text_of(&output));
}
