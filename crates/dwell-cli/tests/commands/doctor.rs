//! `dwell doctor` on this machine, as root and as nobody, and for sets that work, work in part and do not work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Workplace, dwell, skip, text_of};
use crate::other_users::{as_nobody, can_become_nobody, copy_for_all};
use dwell_events::CollectorName;
use serde_json::Value;

/// The report and what the command ended with; both must agree.
fn report(command: &mut Command, folder: &Path, chosen: &str) -> Value {
    let output = command.args(["doctor", "--json", "--collect", chosen, "--output"]).arg(folder).output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(&output)));
    assert_eq!(report["exit_code"].as_i64(), output.status.code().map(i64::from), "{report:#}");
    report
}

fn probe<'a>(report: &'a Value, name: &str) -> &'a Value {
    let probes = report["probes"].as_array().unwrap();
    probes.iter().find(|probe| probe["name"] == name).unwrap_or_else(|| panic!("no probe {name} in {report:#}"))
}

fn status<'a>(report: &'a Value, name: &str) -> &'a str {
    probe(report, name)["status"].as_str().unwrap()
}

/// Names of the probes in a state.
fn names_with(report: &Value, statuses: &[&str]) -> Vec<String> {
    let probes = report["probes"].as_array().unwrap().iter();
    let wanted = probes.filter(|probe| statuses.contains(&probe["status"].as_str().unwrap()));
    wanted.map(|probe| probe["name"].as_str().unwrap().to_owned()).collect()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn both_collectors_work_and_leave_nothing_behind() {
    let place = Workplace::new();
    let report = report(&mut dwell(), place.path(), "tensor_ops,process");
    assert_eq!((status(&report, "tensor_ops"), status(&report, "process")), ("works", "works"), "{report:#}");
    assert_eq!((report["verdict"].as_str(), report["exit_code"].as_i64()), (Some("works"), Some(0)));
    assert!(is_empty(place.path()));
}

#[test]
fn what_is_chosen_by_default_is_what_a_run_uses_by_default() {
    let place = Workplace::new();
    let output = dwell().args(["doctor", "--json", "--output"]).arg(place.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["chosen"], serde_json::json!(CollectorName::BY_DEFAULT));
}

#[test]
fn a_set_that_works_in_part_ends_with_1_and_one_that_does_not_with_2() {
    let place = Workplace::new();
    let all = report(&mut dwell(), place.path(), "process");
    let failing = names_with(&all, &["fails", "absent"]);
    let Some(failing) = failing.first() else {
        return skip("a_set_that_works_in_part_ends_with_1_and_one_that_does_not_with_2", "everything works here");
    };
    let none = report(&mut dwell(), place.path(), failing);
    assert_eq!((none["verdict"].as_str(), none["exit_code"].as_i64()), (Some("fails"), Some(2)), "{none:#}");
    let some = report(&mut dwell(), place.path(), &format!("process,{failing}"));
    assert_eq!((some["verdict"].as_str(), some["exit_code"].as_i64()), (Some("degraded"), Some(1)), "{some:#}");
    assert_eq!(some["chosen"], serde_json::json!(["process", failing]));
}

#[test]
fn text_and_json_say_the_same() {
    let place = Workplace::new();
    let report = report(&mut dwell(), place.path(), "process");
    let output = dwell().args(["doctor", "--collect", "process", "-o"]).arg(place.path()).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.ends_with("chosen: process; all of it works\n"), "{text}");
    let words = [("works", "works"), ("degraded", "degraded"), ("fails", "no"), ("absent", "no")];
    for probe in report["probes"].as_array().unwrap() {
        let name = probe["name"].as_str().unwrap();
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        let word = words.iter().find(|(status, _)| *status == probe["status"]).unwrap().1;
        assert_eq!(line.split_whitespace().nth(1), Some(word), "{line}");
    }
    let hints = String::from_utf8(output.stderr).unwrap().lines().filter(|line| line.starts_with("hint: for ")).count();
    let remedies = report["probes"].as_array().unwrap().iter().filter(|probe| probe["remedy"].is_string()).count();
    let missing = report["engines"].as_array().unwrap().iter().filter(|engine| engine["program"].is_null()).count();
    assert_eq!(hints, remedies + missing);
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let output = dwell().args(["doctor", "--collect", "process,tensors"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text_of(&output);
    let known = format!("{}, perf_software", CollectorName::NAMES.join(", "));
    assert!(said.contains("\"tensors\"") && said.contains(&known), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told() {
    // No user can make folders here.
    let report = report(&mut dwell(), Path::new("/proc"), "tensor_ops");
    assert_eq!(status(&report, "tensor_ops"), "fails", "{report:#}");
    assert!(probe(&report, "tensor_ops")["found"].as_str().unwrap().contains("/proc"), "{report:#}");
}

#[test]
fn what_root_may_and_nobody_may_not_is_told_with_a_remedy() {
    const TEST: &str = "what_root_may_and_nobody_may_not_is_told_with_a_remedy";
    if !can_become_nobody() {
        return skip(TEST, "another user cannot be taken on with setpriv");
    }
    let place = Workplace::new();
    let program = copy_for_all(&place);
    let results = place.path().join("results");
    fs::create_dir(&results).unwrap();
    fs::set_permissions(&results, fs::Permissions::from_mode(0o777)).unwrap();
    let root = report(&mut Command::new(&program), &results, "tensor_ops,process");
    let nobody = report(&mut as_nobody(&program), &results, "tensor_ops,process");
    assert_eq!(nobody["exit_code"], 0, "dwell's own collectors need no privilege: {nobody:#}");
    if status(&root, "ebpf") != "works" {
        return skip(TEST, "eBPF does not work here even as root");
    }
    assert_eq!(status(&nobody, "ebpf"), "fails", "{nobody:#}");
    let ebpf = probe(&nobody, "ebpf");
    assert!(ebpf["found"].as_str().unwrap().contains("EPERM"), "{ebpf:#}");
    assert!(ebpf["remedy"].as_str().unwrap().contains("setcap"), "{ebpf:#}");
    assert!(probe(&root, "pagemap")["found"].as_str().unwrap().contains("with frame numbers"));
    assert!(probe(&nobody, "pagemap")["found"].as_str().unwrap().contains("without frame numbers"));
}
