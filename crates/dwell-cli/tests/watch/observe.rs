//! `dwell observe`: who may, what it writes, how it ends.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use dwell_gguf::MakeSpec;
use serde_json::Value;

use crate::common::{SmallDisk, Workplace, copy_program, dwell, skip, text_of, wait_for};
use crate::lab::{Program, assert_refused};

fn observe(arguments: &[&str]) -> Command {
    let mut command = dwell();
    command.arg("observe");
    if !arguments.contains(&"--interval") {
        command.args(["--interval", "0.1"]);
    }
    command.args(arguments);
    command
}

/// The lines of a file, each of which must be whole.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is cut off");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The lines that `--json` printed.
fn printed(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lines_have_the_fields_of_both_scripts_and_their_labels() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("o.jsonl");
    let output = observe(&["--count", "2", "--label", "node=a", "-o"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let lines = lines(&file);
    assert_eq!(lines.len(), 2);
    for line in &lines {
        for field in ["timestamp", "iso_timestamp", "interval_s", "inflight", "off_cpu_ns", "page_faults"] {
            assert!(!line[field].is_null(), "{field}: {line}");
        }
        assert_eq!(line["labels"]["node"], "a");
        assert!((0.05..60.0).contains(&line["interval_s"].as_f64().unwrap()));
    }
    assert_eq!(lines[0]["end_ns"], lines[1]["begin_ns"]);
}

#[test]
fn only_chosen_groups_are_observed_and_without_a_file_there_is_none() {
    let place = tempfile::tempdir().unwrap();
    let mut command = observe(&["--count", "1", "--no-output", "--json", "--only", "psi,disk"]);
    let output = command.current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let line = &printed(&output)[0];
    assert!(line["off_cpu_ns"].is_null() && line["processes"].is_null() && !line["disks"].is_null());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn an_ordinary_user_gets_the_kernels_counters() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("dwell");
    copy_program(Path::new(env!("CARGO_BIN_EXE_dwell")), &program);
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path(), readable).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let output = command.args(["observe", "--interval", "0.2", "--count", "1", "--no-output", "--json"]).output();
    let Some(output) = output.ok().filter(|output| !text_of(output).contains("setpriv:")) else {
        return skip("an_ordinary_user_gets_the_kernels_counters", "another user cannot be taken on with setpriv");
    };
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(text_of(&output).contains("hint: sudo setcap"), "{}", text_of(&output));
    let line = &printed(&output)[0];
    assert_eq!(line["sources"]["disk"]["source"], "procfs");
    assert_eq!(line["sources"]["sync"]["source"], "unavailable");
    assert!(line["off_cpu_ns"].as_object().unwrap().len() > 1, "{line}");
}

#[test]
fn a_command_is_observed_from_its_first_instruction_and_its_end_is_told() {
    let mut command = observe(&["--no-output", "--json", "--only", "mem", "--", "sh", "-c", "sleep 0.3; exit 3"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("the command ended with exit status: 3"), "{}", text_of(&output));
    let faults_of = |line: &Value| -> u64 {
        line["page_faults"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
    };
    let faults: u64 = printed(&output).iter().map(faults_of).sum();
    assert!(faults > 50, "a shell and sleep touch more pages: {faults}");
}

#[test]
fn observing_ends_when_its_process_does() {
    let program = Program::idle();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("o.jsonl");
    let mut observer = observe(&["--pid", &program.pid(), "-o"]).arg(&file).spawn().unwrap();
    wait_for("the first line", || fs::metadata(&file).is_ok_and(|file| file.len() > 0).then_some(()));
    drop(program);
    assert!(observer.wait().unwrap().success());
    assert!(!lines(&file).is_empty());
}

#[test]
fn a_kill_leaves_whole_lines_and_a_cut_one_is_repaired() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("o.jsonl");
    let mut observer = observe(&["-o"]).arg(&file).spawn().unwrap();
    wait_for("two lines", || fs::read_to_string(&file).is_ok_and(|text| text.lines().count() >= 2).then_some(()));
    observer.kill().unwrap();
    observer.wait().unwrap();
    let before = lines(&file).len();
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"timestamp\":17").unwrap();
    let output = observe(&["--count", "1", "-o"]).arg(&file).output().unwrap();
    assert!(output.status.success() && text_of(&output).contains("removed 15 bytes of a cut last line"));
    assert_eq!(lines(&file).len(), before + 1);
}

#[test]
fn a_full_disk_ends_it_and_leaves_whole_lines() {
    let Some(disk) = SmallDisk::mount("256k") else {
        return skip("a_full_disk_ends_it_and_leaves_whole_lines", "mounting is not permitted");
    };
    let file = disk.path().join("o.jsonl");
    let output = observe(&["-o"]).arg(&file).output().unwrap();
    assert_refused(&output, "lines are not in the file");
    assert!(!lines(&file).is_empty());
}

#[test]
fn what_cannot_be_observed_or_written_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let notes = place.path().join("notes");
    fs::write(&notes, "mine").unwrap();
    let refused = |arguments: &[&str], said: &str| assert_refused(&observe(arguments).output().unwrap(), said);
    refused(&["--no-output", "--pid", "4294967295"], "no process 4294967295");
    refused(&["--no-output", "--cgroup", "no/such/group"], "no control group");
    refused(&["-o", &notes.display().to_string()], "holds something else");
    refused(&["-o", &place.path().join("no/such/o.jsonl").display().to_string()], "no such folder");
    refused(&["--no-output", "--only", "gpu"], "gpu");
    refused(&["--no-output", "--interval", "0.001"], "at least 0.05 s");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
}

#[test]
fn tokens_of_a_run_are_joined_by_time_and_figures_are_written() {
    let place = Workplace::new();
    let model = place.model(MakeSpec { layers: 2, embedding: 64, feed_forward: 128, ..MakeSpec::default() });
    let (file, folder) = (place.path().join("o.jsonl"), place.path().join("report"));
    let run = place.run_command(&model, &["--prompt", "abc", "--max-tokens", "40", "--ignore-end"]);
    let mut command = dwell();
    command.args(["observe", "--interval", "0.05", "--output"]).arg(&file).arg("--");
    let output = command.arg(run.get_program()).args(run.get_args()).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let mut command = dwell();
    command.args(["observe", "report", "--json", "--run"]).arg(&place.opened_run(&model).dir).arg(&file);
    let output = command.arg("-o").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["slow_tokens"]["tokens"], report["slow_tokens"]["joined_tokens"], "{report}");
    assert!(report["slow_tokens"]["tokens"].as_u64().unwrap() >= 38, "{report}");
    assert!(folder.join("report.json").is_file());
    for device in report["devices"].as_array().unwrap().iter().filter(|device| device["requests"] != 0) {
        let figure = folder.join(format!("{}_latency.svg", device["name"].as_str().unwrap()));
        assert!(figure.is_file(), "{figure:?}");
    }
}

#[test]
fn a_report_says_percentiles_and_replaces_no_file() {
    let place = Workplace::new();
    let (file, folder) = (place.path().join("o.jsonl"), place.path().join("report"));
    let line = r#"{"timestamp":1700000000.5,"interval_s":5.0,"latency_histogram":[{"device_id":1,"device_name":"vda","total":4,"buckets":[{"slot":7,"count":4,"bucket_low":128,"bucket_high":255}]}]}"#;
    fs::write(&file, format!("{line}\n{{\"timest")).unwrap();
    let report = || {
        let mut command = dwell();
        command.args(["observe", "report", "--format", "pdf", "-o"]).arg(&folder).arg(&file).output().unwrap()
    };
    let output = report();
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the last line is cut") && text.contains("vda") && text.contains("192 µs"), "{text}");
    for name in ["vda_latency.pdf", "vda_latency.csv", "vda_load.pdf", "report.json"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assert_refused(&report(), "exists already");
    let mut command = dwell();
    assert_refused(&command.args(["observe", "report", "/no/such/file"]).output().unwrap(), "No such file");
}
