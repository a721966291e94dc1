//! How traced commands end, and what is kept of them.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use dwell_events::schema::Table;
use dwell_store::RawReader;
use rustix::process::Signal;

use crate::common::{Workplace, dwell, optional, send, text, text_of, wait_for};
use crate::{done, trace, traced_run};

fn server_facts(run: &crate::common::Run) -> serde_json::Value {
    run.metadata()["server"].clone()
}

#[test]
fn a_command_without_ggml_leaves_its_memory_and_the_reason_why_nothing_was_traced() {
    let place = Workplace::new();
    let script = "import time; held = b'x' * (96 << 20); time.sleep(0.5); print('done')";
    let (run, output) = done(&place, trace(&place, &[], &["python3", "-c", script]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("done\n"), "{said}");
    assert!(said.contains("no accesses: none of its processes has ggml"), "{said}");
    let facts = server_facts(&run);
    assert_eq!((&facts["exit_code"], &facts["exit_signal"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!(facts["untraced_because"], "none of its processes has ggml");
    let batches = run.batches(Table::Memory);
    let peak = batches.iter().flat_map(|batch| {
        let is_server = |row: &usize| text(batch, "label", *row).starts_with("server");
        let rss = |row| optional::<arrow_array::types::UInt64Type>(batch, "rss_bytes", row);
        (0..batch.num_rows()).filter(is_server).filter_map(rss).collect::<Vec<_>>()
    });
    assert!(peak.max().unwrap() >= 96 << 20, "the memory of the command is sampled");
    assert!(run.accesses().is_empty());
}

#[test]
fn what_a_command_returns_is_kept_and_is_no_failure_of_dwell() {
    for (script, code, signal, said) in [
        ("exit 7", Some(7), None, "exit code 7"),
        ("kill -9 $$", None, Some(9), "ended by signal 9"),
        (":", Some(0), None, "exit code 0"),
    ] {
        let place = Workplace::new();
        let (run, output) = done(&place, trace(&place, &[], &["sh", "-c", script]));
        let facts = server_facts(&run);
        assert_eq!((facts["exit_code"].as_i64(), facts["exit_signal"].as_i64()), (code, signal), "{script}");
        let text = text_of(&output);
        assert!(text.contains(said), "{text}");
        assert_eq!(facts["command_line"][2], script);
        assert_eq!(run.metadata()["state"], "complete");
    }
}

#[test]
fn a_command_that_is_not_there_is_refused_and_leaves_nothing() {
    let place = Workplace::new();
    for program in ["no-such-program-anywhere", "./no-such-file", "/"] {
        let output = trace(&place, &[], &[program]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: starting command: ") && said.contains(program), "{said}");
        assert!(said.contains("hint: see whether it is there"), "{said}");
        assert!(!traced_run(&place).dir.exists());
    }
}

#[test]
fn standard_input_output_and_error_are_the_commands_own() {
    let place = Workplace::new();
    let script = "read line; echo \"out $line\"; echo \"err $line\" >&2";
    let mut command = trace(&place, &["--quiet"], &["sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert_eq!((&*output.stdout, &*output.stderr), (&b"out hello\n"[..], &b"err hello\n"[..]));
    let environment = done_again(&place, &["sh", "-c", "env | grep -c DWELL_JOB_FILE || true"]);
    assert_eq!(environment.lines().next(), Some("0"), "the command does not see how the worker got its job");
}

/// The standard output of another trace in the same place.
fn done_again(place: &Workplace, command: &[&str]) -> String {
    std::fs::remove_dir_all(traced_run(place).dir).unwrap();
    String::from_utf8(done(place, trace(place, &["--quiet"], command)).1.stdout).unwrap()
}

#[test]
fn with_json_the_summary_follows_what_the_command_prints() {
    let place = Workplace::new();
    let (_, output) = done(&place, trace(&place, &["--json"], &["echo", "first"]));
    let said = String::from_utf8(output.stdout).unwrap();
    let (first, json) = said.split_once('\n').unwrap();
    let summary: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!((first, &summary["engine"], &summary["accesses"]), ("first", &"command".into(), &0.into()));
}

/// A trace of a shell script in a process group of its own, as without a terminal, once the script has begun.
fn waiting(place: &Workplace, script: &str) -> std::process::Child {
    waiting_until(place, script, ":")
}

/// The same, where the script does something again and again.
fn waiting_until(place: &Workplace, script: &str, again: &str) -> std::process::Child {
    let begun = place.path().join("begun");
    let script = format!("{script}; : > '{}'; while :; do sleep 0.05; {again}; done", begun.display());
    let mut command: Command = trace(place, &[], &["sh", "-c", &script]);
    command.process_group(0).stdout(File::create(place.path().join("stdout")).unwrap());
    command.stderr(File::create(place.path().join("stderr")).unwrap());
    let child = command.spawn().unwrap();
    wait_for("the script to begin", || begun.exists().then_some(()));
    child
}

#[test]
fn a_signal_to_dwell_reaches_the_command_and_dwell_waits_for_it() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT")] {
        let place = Workplace::new();
        let mut child = waiting(&place, &format!("trap 'echo got {name}; exit 3' {name}"));
        // Once: a second one would end dwell.
        send(child.id(), signal);
        let status = wait_for("the end of the trace", || child.try_wait().unwrap());
        let said = std::fs::read_to_string(place.path().join("stdout")).unwrap();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.starts_with(&format!("got {name}\n")), "{said}");
        let run = traced_run(&place);
        assert_eq!((&server_facts(&run)["exit_code"], &run.metadata()["state"]), (&3.into(), &"complete".into()));
    }
}

#[test]
fn a_signal_to_the_whole_process_group_reaches_the_command_once() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT")] {
        let place = Workplace::new();
        let got = place.path().join("got");
        // It ends some time after the first signal: a second one has that long to come.
        let end = format!("[ -e '{0}' ] && sleep 0.3 && exit 3", got.display());
        let mut child = waiting_until(&place, &format!("trap 'echo {name} >> {}' {name}", got.display()), &end);
        let group = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, signal).unwrap();
        let status = wait_for("the end of the trace", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0));
        assert_eq!(std::fs::read_to_string(got).unwrap(), format!("{name}\n"));
        assert_eq!(server_facts(&traced_run(&place))["exit_code"], 3);
    }
}

#[test]
fn a_killed_observer_takes_the_command_along_and_recovery_finishes_the_run() {
    let place = Workplace::new();
    let pid_file = place.path().join("pid");
    let mut child = waiting(&place, &format!("echo $$ > '{}'", pid_file.display()));
    let command = std::path::PathBuf::from(format!("/proc/{}", std::fs::read_to_string(pid_file).unwrap().trim()));
    assert!(command.exists());
    let run = traced_run(&place);
    let stream = run.dir.join("raw/process.arrows");
    wait_for("a whole batch of samples", || RawReader::open(&stream).ok()?.flatten().next());
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
    wait_for("the end of the command", || (!command.exists()).then_some(()));
    let recovered = dwell().arg("recover").arg(&run.dir).output().unwrap();
    assert_eq!(recovered.status.code(), Some(1), "{}", text_of(&recovered));
    let metadata = run.metadata();
    assert_eq!((&metadata["state"], &metadata["engine"]), (&"partial".into(), &"command".into()));
    assert!(run.losses().contains(&("observer_died".to_owned(), 1)), "{:?}", run.losses());
    assert!(!run.batches(Table::Memory).is_empty());
}
