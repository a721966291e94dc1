//! What a watch refuses to begin with.

use std::fs;

use crate::common::{SmallDisk, Workplace, skip, text_of};
use crate::lab::{Program, assert_refused, csv_rows, watch};

#[test]
fn there_must_be_one_target() {
    let none = watch(&[]).output().unwrap();
    assert_eq!(none.status.code(), Some(2), "{}", text_of(&none));
    let two = watch(&["--pid", "1", "--name", "x"]).output().unwrap();
    assert_eq!(two.status.code(), Some(2), "{}", text_of(&two));
}

#[test]
fn a_process_that_is_not_there_is_named() {
    // Process ids end at 2^22.
    let output = watch(&["--pid", "4194305"]).output().unwrap();
    assert_refused(&output, "no process has the id 4194305");
    assert!(text_of(&output).contains("hint: list the processes: ps -ef"));
}

#[test]
fn a_name_that_nobody_has_is_waited_for_and_then_said() {
    let name = format!("nobody-{}", std::process::id());
    let output = watch(&["--name", &name, "--wait-secs", "0.2"]).output().unwrap();
    assert_refused(&output, &format!("no process whose name or command line contains \"{name}\"; waited 0.2 s"));
    let waits = format!("waiting up to 200 ms for a process whose name or command line contains \"{name}\"\n");
    assert!(text_of(&output).contains(&waits), "{}", text_of(&output));
}

#[test]
fn a_command_needs_no_dashes_before_it() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let output = watch(&["-o"]).arg(&file).args(["sh", "-c", "exit 3", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("command  exited with status 3"), "{}", text_of(&output));
    let mistyped = watch(&["--nmae", "x"]).output().unwrap();
    assert_eq!(mistyped.status.code(), Some(2), "{}", text_of(&mistyped));
}

#[test]
fn a_kernel_thread_is_refused() {
    if !fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        return skip("watch: a_kernel_thread_is_refused", "process 2 is no kernel thread here, or cannot be seen");
    }
    assert_refused(&watch(&["--pid", "2"]).output().unwrap(), "is a kernel thread");
}

#[test]
fn a_command_that_cannot_be_started_is_named_with_a_hint() {
    let output = watch(&["--", "no-such-program-anywhere"]).output().unwrap();
    assert_refused(&output, "starting the command failed with No such file or directory");
    assert!(text_of(&output).contains("hint: see whether it is there with `command -v no-such-program-anywhere`"));
    let work = Workplace::new();
    let plain = work.path().join("plain");
    fs::write(&plain, "text").unwrap();
    assert_refused(&watch(&["--"]).arg(&plain).output().unwrap(), "Permission denied");
}

#[test]
fn times_that_make_no_sense_are_refused() {
    for option in ["--interval=0", "--interval=-1", "--interval=NaN", "--interval=inf", "--interval=x", "--duration=-1"]
    {
        let output = watch(&[option, "--pid", "1"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}: {}", text_of(&output));
        assert!(text_of(&output).contains("invalid value"), "{option}: {}", text_of(&output));
    }
}

#[test]
fn a_file_that_exists_is_kept_unless_it_may_be_replaced() {
    let work = Workplace::new();
    let idle = Program::idle();
    for name in ["samples.csv", "samples.parquet"] {
        let file = work.path().join(name);
        fs::write(&file, "dear to somebody").unwrap();
        let arguments = ["--pid", &idle.pid(), "--max-samples", "2", "--json", "-o"];
        let output = watch(&arguments).arg(&file).output().unwrap();
        assert_refused(&output, "exists already");
        assert_eq!(fs::read_to_string(&file).unwrap(), "dear to somebody");
        let output = watch(&arguments).arg(&file).arg("--force").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
        assert_ne!(fs::read(&file).unwrap(), b"dear to somebody");
    }
    assert_eq!(csv_rows(&work.path().join("samples.csv")).len(), 4);
}

#[test]
fn an_output_that_cannot_be_made_is_refused_before_a_program_is_started() {
    let work = Workplace::new();
    let trace = work.path().join("ran");
    let script = format!("touch {}", trace.display());
    for (name, said) in
        [("x.txt", ".csv or .parquet"), ("none/x.csv", "no such file"), ("none/x.parquet", "no such file")]
    {
        let output = watch(&["-o"]).arg(work.path().join(name)).args(["--", "sh", "-c", &script]).output().unwrap();
        assert_refused(&output, said);
        assert!(!trace.exists());
    }
}

#[test]
fn a_file_that_may_be_replaced_outlives_a_watch_that_does_not_begin() {
    let work = Workplace::new();
    for name in ["x.csv", "x.parquet"] {
        let file = work.path().join(name);
        fs::write(&file, "dear to somebody").unwrap();
        let command = ["--force", "--", "/no-such-program-anywhere"];
        assert_refused(&watch(&["-o"]).arg(&file).args(command).output().unwrap(), "starting the command failed");
        let nobody = ["--force", "--pid", "4194305"];
        assert_refused(&watch(&["-o"]).arg(&file).args(nobody).output().unwrap(), "no process has the id");
        assert_eq!(fs::read_to_string(&file).unwrap(), "dear to somebody");
    }
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 2);
}

#[test]
fn a_file_that_may_be_replaced_outlives_a_full_disk() {
    let Some(disk) = SmallDisk::mount("256k") else {
        return skip("a_file_that_may_be_replaced_outlives_a_full_disk", "mounting a tmpfs needs root");
    };
    let files = ["x.csv", "x.parquet"].map(|name| disk.path().join(name));
    files.iter().for_each(|file| fs::write(file, "dear to somebody").unwrap());
    disk.fill_but(0);
    for file in &files {
        let output = watch(&["--force", "-o"]).arg(file).args(["--", "sleep", "0.1"]).output().unwrap();
        assert_refused(&output, "no space left");
        assert_eq!(fs::read_to_string(file).unwrap(), "dear to somebody");
    }
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 3, "the two, and what fills the disk");
}

#[test]
fn where_there_is_nothing_to_watch_no_file_is_left() {
    let work = Workplace::new();
    for name in ["x.csv", "x.parquet"] {
        let file = work.path().join(name);
        assert_refused(&watch(&["--pid", "4194305", "-o"]).arg(&file).output().unwrap(), "no process has the id");
        let command = ["--", "no-such-program-anywhere"];
        assert_refused(&watch(&["-o"]).arg(&file).args(command).output().unwrap(), "starting the command failed");
    }
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
}
