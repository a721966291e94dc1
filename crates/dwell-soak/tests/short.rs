//! A soak of a few trials; `make soak` does more.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;

use skip::skip;

/// With a seed of its own for each, every scenario comes several times.
const TRIALS: &str = "40";

#[test]
fn nothing_is_lost_littered_orphaned_or_falsely_complete_in_a_few_trials() {
    let name = "nothing_is_lost_littered_orphaned_or_falsely_complete_in_a_few_trials";
    let soak = Path::new(env!("CARGO_BIN_EXE_dwell-soak"));
    if std::env::var_os("DWELL_QUICK").is_some_and(|value| value == "1") {
        return skip(name, "DWELL_QUICK");
    }
    if !soak.with_file_name("dwell").exists() {
        return skip(name, "dwell is not built beside it (make test builds it)");
    }
    let output = Command::new(soak).args(["--trials", TRIALS, "--seed", "7", "--minutes", "10"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let kills = said.split(" min, ").nth(1).and_then(|text| text.split(' ').next()).unwrap();
    assert!(kills.parse::<u64>().unwrap() >= 10, "{said}");
}
