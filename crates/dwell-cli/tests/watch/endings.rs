//! How a watch ends.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Workplace, send, text_of, wait_for};
use crate::lab::{Program, csv_rows, summary, watch};

#[test]
fn the_watch_ends_with_what_it_watches() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let mut idle = Program::idle();
    let mut watching = watch(&["--pid", &idle.pid(), "--json", "-o"]);
    let mut watching = watching.arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    wait_for("samples", || (fs::read_to_string(&file).unwrap_or_default().lines().count() > 3).then_some(()));
    idle.0.kill().unwrap();
    idle.0.wait().unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    watching.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("\"samples\""), "{text}");
}

#[test]
fn a_time_is_kept_and_said() {
    let idle = Program::idle();
    let began_at = Instant::now();
    let output = watch(&["--pid", &idle.pid(), "--duration", "0.3", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let found = summary(&output);
    // Early is wrong; late is the machine's business.
    assert!(began_at.elapsed() >= Duration::from_millis(300) && found["duration_s"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["own"]["cpu_pct"].as_f64().unwrap() > 0.0 && found["own"]["peak_rss_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn ctrl_c_ends_the_watch_of_another_program_and_the_file_is_whole() {
    let work = Workplace::new();
    let file = work.path().join("memory.parquet");
    let idle = Program::idle();
    let mut watching = watch(&["--pid", &idle.pid(), "-o"]);
    let watching = watching.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the stream", || work.path().join("memory.parquet.arrows").exists().then_some(()));
    send(watching.id(), Signal::INT);
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("memory"), "{}", text_of(&output));
    assert!(file.exists());
}

#[test]
fn a_program_started_here_has_its_streams_and_its_status_is_said() {
    let script = "cat; sleep 0.2; exit 3";
    let mut watching = watch(&["--", "sh", "-c", script]);
    let mut watching = watching.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut watching.stdin.take().unwrap(), b"through and through\n").unwrap();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("through and through\n"), "{text}");
    assert!(text.contains("command  exited with status 3"), "{text}");
    assert!(text.contains("watched  sh, ") && text.contains("rss"), "{text}");
}

#[test]
fn ctrl_c_is_the_programs_business_and_sigterm_is_handed_on() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let mut watching = watch(&["--json", "-o"]);
    let watching = watching.arg(&file).args(["--", "sleep", "1000"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for("samples", || (fs::read_to_string(&file).unwrap_or_default().lines().count() > 3).then_some(()));
    send(watching.id(), Signal::INT);
    let lines = || fs::read_to_string(&file).unwrap().lines().count();
    let before = lines();
    wait_for("more samples", || (lines() > before + 10).then_some(()));
    send(watching.id(), Signal::TERM);
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_eq!(summary(&output)["command"]["signal"].as_u64(), Some(15));
    assert!(csv_rows(&file).len() > before);
}

#[test]
fn a_child_that_outlives_its_parent_is_watched_to_its_end() {
    let output = watch(&["--json", "--", "sh", "-c", "sleep 0.5 & exit 0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let found = summary(&output);
    let names: Vec<&str> = found["processes"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"sleep"), "{found}");
    assert_eq!(found["command"]["exit_code"].as_u64(), Some(0));
}

#[test]
fn piped_it_says_how_it_goes_in_plain_lines() {
    let idle = Program::idle();
    let output = watch(&["--pid", &idle.pid(), "--max-samples", "3"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("watching 1 process: {} sleep\n", idle.pid())), "{said}");
    assert!(said.contains("1 process  cpu") && said.contains("rss ") && !said.contains('\u{1b}'), "{said}");
    let json = watch(&["--pid", &idle.pid(), "--max-samples", "3", "--json"]).output().unwrap();
    assert!(json.stderr.is_empty(), "{}", text_of(&json));
}
