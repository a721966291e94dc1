//! Several experiments at the same time.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::common::text_of;
use crate::lab::{Lab, assert_done};
use crate::resumed::wait_until;

#[test]
fn two_experiments_into_the_same_results_corrupt_nothing() {
    let lab = Lab::new();
    let planned = lab.planned("tiny_experiment.yaml");
    let begin = || {
        let mut command = lab.command(&["run", "--config", "tiny_experiment.yaml"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [begin(), begin()];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_done(&output);
    }
    let rows = lab.rows();
    assert_eq!(rows.len(), 2 * planned.len());
    let distinct: BTreeSet<(&str, &str)> =
        rows.iter().map(|row| (row.model_id.as_str(), row.run_id.as_str())).collect();
    assert_eq!(distinct.len(), rows.len());
    let verified = lab.output(&["verify", "results"]);
    assert!(verified.status.success(), "{}", text_of(&verified));
    let experiments: BTreeSet<&str> = rows.iter().map(|row| row.experiment.as_str()).collect();
    assert_eq!(experiments.len(), 2);
}

#[test]
fn the_same_experiment_is_not_resumed_twice_at_once() {
    let lab = Lab::new();
    let mut first = lab.command(&["run", "--config", "tiny_experiment.yaml"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| lab.results().join("manifest.csv").is_file());
    let second = lab.output(&["run", "--config", "tiny_experiment.yaml", "--resume"]);
    assert_eq!(second.status.code(), Some(2), "{}", text_of(&second));
    assert!(text_of(&second).contains("being run by another process"), "{}", text_of(&second));
    first.kill().unwrap();
    first.wait().unwrap();
}
