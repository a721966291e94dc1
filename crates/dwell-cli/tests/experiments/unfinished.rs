//! Experiments that have not come to their end, or cannot begin: what is said, and what `--resume` makes of them.

use std::fs;
use std::process::Stdio;

use dwell_gguf::MakeSpec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::text_of;
use crate::lab::{Lab, SMALLEST, assert_done, small};
use crate::resumed::wait_until;

/// The second prompt does not fit, after the first has been computed: no execution of it comes to its end.
fn lab_with_a_run_that_fails_midway() -> Lab {
    let lab = Lab::new();
    let words = "word ".repeat(90);
    let prompts = format!(
        "- {{id: greeting, category: short, text: Hello}}\n- {{id: long, category: short, text: \"{words}\"}}\n"
    );
    lab.write("long_prompts.yaml", &prompts);
    lab.write("fails.yaml", &SMALLEST.replace("tiny_prompts.yaml", "long_prompts.yaml"));
    lab
}

#[test]
fn a_run_whose_worker_fails_midway_is_a_failed_one_and_tried_again() {
    let lab = lab_with_a_run_that_fails_midway();
    for (arguments, attempts) in [(&["run", "--config", "fails.yaml"][..], 1), (&RESUME, 2)] {
        let output = lab.output(arguments);
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("0 of 1 run is done") && said.contains("hint: do what is missing"), "{said}");
        let rows = lab.rows();
        assert_eq!((rows.len(), rows[0].state.as_str()), (1, "failed"));
        assert!(rows[0].failure.contains("positions are needed"), "{}", rows[0].failure);
        let experiment = fs::read_dir(lab.results().join("experiments")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_dir(experiment.join("interrupted")).unwrap().count(), attempts);
        assert!(!experiment.join("finished.json").exists());
    }
}

const RESUME: [&str; 4] = ["run", "--config", "fails.yaml", "--resume"];

#[test]
fn the_same_files_are_resumed_from_anywhere_and_an_exchanged_model_is_not() {
    let lab = lab_with_a_run_that_fails_midway();
    lab.output(&["run", "--config", "fails.yaml"]);
    let (config, results) = (lab.path().join("fails.yaml"), lab.results());
    let resume = || {
        let mut command = lab.command(&["run", "--resume", "--config"]);
        command.arg(&config).arg("-o").arg(&results).current_dir("/").output().unwrap()
    };
    let output = resume();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    // As many bytes, other weights.
    lab.make_model("tiny-a.gguf", MakeSpec { layers: 2, seed: 5, ..small() });
    let output = resume();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("have changed since it began"), "{}", text_of(&output));
}

#[test]
fn the_hint_goes_on_with_the_same_results() {
    let lab = lab_with_a_run_that_fails_midway();
    let output = lab.output(&["run", "--config", "fails.yaml", "-o", "it's here", "--measure-slowdown"]);
    let said = text_of(&output);
    let command = r"`dwell run --config fails.yaml --resume --output 'it'\''s here' --measure-slowdown`";
    assert!(said.contains(command), "{said}");
}

#[test]
fn resuming_what_is_finished_prints_its_summary_again() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALLEST);
    let first = lab.run("small.yaml");
    let output = lab.output(&["run", "--config", "small.yaml", "--resume", "--json"]);
    assert_done(&output);
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again, first);
}

#[test]
fn a_signal_to_the_observer_alone_interrupts_the_experiment() {
    let lab = Lab::new();
    lab.write("slow.yaml", &SMALLEST.replace("baseline_secs: 0.1", "baseline_secs: 60"));
    let mut command = lab.command(&["run", "--config", "slow.yaml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| lab.results().join("tiny-a").is_dir());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let observer: i32 = children.trim().parse().unwrap();
    kill_process(Pid::from_raw(observer).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("0 of 1 run is done; interrupted"), "{}", text_of(&output));
}

#[test]
fn results_that_cannot_be_written_are_an_error_and_no_reason_for_another_collector() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALLEST);
    lab.write("occupied", "");
    std::os::unix::fs::symlink("nowhere", lab.path().join("dangling")).unwrap();
    for results in ["occupied", "occupied/results", "dangling"] {
        let output = lab.output(&["validate", "--config", "small.yaml", "-o", results]);
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot be written") && !said.contains("takes its place"), "{said}");
    }
}

#[test]
fn the_name_of_a_single_run_cannot_be_given() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALLEST);
    let output = lab.output(&["run", "--config", "small.yaml", "--run-id", "mine"]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(!lab.results().exists());
}

#[test]
fn a_run_that_was_killed_and_recovered_is_done_again() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALLEST);
    lab.run("small.yaml");
    let only = |folder: std::path::PathBuf| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let (experiment, run) = (only(lab.results().join("experiments")), only(lab.results().join("tiny-a")));
    fs::remove_file(experiment.join("finished.json")).unwrap();
    // What `dwell recover` leaves of a run whose observer was killed.
    let state = run.join("raw/STATE");
    fs::write(&state, fs::read_to_string(&state).unwrap().replace("complete", "partial")).unwrap();
    fs::remove_file(run.join("raw/recorded.json")).unwrap();
    let output = lab.output(&["run", "--config", "small.yaml", "--resume"]);
    assert!(!text_of(&output).contains("nothing to resume"), "{}", text_of(&output));
    assert!(fs::read_to_string(&state).unwrap().contains("complete"), "{}", text_of(&output));
    assert_eq!(fs::read_dir(experiment.join("interrupted")).unwrap().count(), 1);
}
