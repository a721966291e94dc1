//! A collector that does not work here.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::text_of;
use crate::lab::{Lab, Outcome, SMALLEST};

/// Runs an experiment where no file may grow beyond 8 MiB: the recorder's ring cannot be made, all else can.
fn run_with_small_files(lab: &Lab, config: &str) -> Output {
    let dwell = env!("CARGO_BIN_EXE_dwell");
    let script =
        format!("trap '' XFSZ; ulimit -f 16384; exec {dwell} run --json --config {config} -o results-{config}");
    Command::new("sh").arg0("sh").args(["-c", &script]).current_dir(lab.path()).output().unwrap()
}

#[test]
fn a_fallback_takes_the_place_of_a_collector_that_does_not_work() {
    assert_a_fallback_is_used(&Lab::new());
}

#[test]
fn without_a_fallback_the_experiment_refuses_to_run() {
    assert_refused_without_a_fallback(&Lab::new());
}

pub fn assert_a_fallback_is_used(lab: &Lab) {
    lab.write("falls.yaml", SMALLEST);
    let output = run_with_small_files(lab, "falls.yaml");
    crate::lab::assert_done(&output);
    let summary = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = Outcome { results: lab.path().join("results-falls.yaml"), summary };
    let metadata = outcome.run().metadata();
    assert_eq!(metadata["collectors"]["used"], serde_json::json!(["process"]));
    assert_eq!(metadata["collectors"]["fallbacks"][0]["wanted"], "tensor_ops");
    assert_eq!(metadata["collectors"]["fallbacks"][0]["instead"], "process");
    let refusal = &metadata["collectors"]["refusals"][0];
    assert_eq!((&refusal["collector"], &refusal["at"]), (&"tensor_ops".into(), &"check".into()));
    assert_eq!(metadata["tables"]["trace"]["basis"], "none");
    assert!(metadata["tables"]["memory"]["rows"].as_u64().unwrap() > 0);
    assert_eq!(metadata["quality"]["collector"], "process");
}

pub fn assert_refused_without_a_fallback(lab: &Lab) {
    lab.write("refuses.yaml", &format!("{SMALLEST}collectors: {{fallback: []}}\n"));
    let output = run_with_small_files(lab, "refuses.yaml");
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    let said = text_of(&output);
    assert!(said.contains("the collector tensor_ops does not work here"), "{said}");
    assert!(said.contains("dwell doctor --collect tensor_ops"), "{said}");
    assert!(!lab.path().join("results-refuses.yaml").exists());
}
