//! What belongs to other users of the machine, and may not be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Workplace, copy_program, skip, text_of};
use crate::report::tiny_run;

/// The binary where everybody can reach it.
pub fn copy_for_all(place: &Workplace) -> PathBuf {
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = place.path().join("dwell");
    copy_program(Path::new(env!("CARGO_BIN_EXE_dwell")), &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The program as a user who owns nothing.
pub fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command
}

pub fn can_become_nobody() -> bool {
    let output: std::io::Result<Output> = as_nobody(Path::new("true")).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_run_that_may_not_be_read_is_named_and_not_left_out() {
    const TEST: &str = "a_run_that_may_not_be_read_is_named_and_not_left_out";
    if !can_become_nobody() {
        return skip(TEST, "another user cannot be taken on with setpriv");
    }
    let place = Workplace::new();
    let program = copy_for_all(&place);
    tiny_run(&place, "open");
    let closed = tiny_run(&place, "closed");
    fs::set_permissions(&closed.dir, fs::Permissions::from_mode(0o000)).unwrap();
    let outputs = place.path().join("out");
    fs::create_dir(&outputs).unwrap();
    fs::set_permissions(&outputs, fs::Permissions::from_mode(0o777)).unwrap();
    let commands: [(i32, &[&str]); 6] = [
        (1, &["compare", "results"]),
        (1, &["analyse", "results", "--include", "contaminated"]),
        (1, &["recover", "results"]),
        (1, &["verify", "results"]),
        (1, &["report", "results", "-o", "out/report.html"]),
        // A dataset would lack the run.
        (2, &["export", "results", "--all", "--format", "hf", "--licence", "CC0-1.0", "-o", "out/dataset"]),
    ];
    for (code, arguments) in commands {
        let output = as_nobody(&program).args(arguments).current_dir(place.path()).output().unwrap();
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains("/closed"), "{arguments:?} names the run: {said}");
    }
    fs::set_permissions(&closed.dir, fs::Permissions::from_mode(0o755)).unwrap();
}
