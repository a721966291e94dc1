//! What can go wrong while a watch goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Workplace, copy_program, dwell, skip, text_of, wait_for};
use crate::lab::{Program, assert_refused, csv_rows, summary, watch};

#[test]
fn of_another_users_process_the_sizes_are_seen_and_the_rest_is_said_to_be_missing() {
    let name = "of_another_users_process_the_sizes_are_seen_and_the_rest_is_said_to_be_missing";
    let work = Workplace::new();
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Nobody may look into the folder that dwell was built in.
    let program = work.path().join("dwell");
    let built = Path::new(env!("CARGO_BIN_EXE_dwell"));
    if fs::hard_link(built, &program).is_err() {
        copy_program(built, &program);
    }
    let idle = Program::idle();
    let file = work.path().join("samples.csv");
    let mut command = Command::new(&program);
    command.args(["watch", "--interval", "0.01", "--max-samples", "5", "--pid", &idle.pid(), "-o"]).arg(&file);
    let output = match command.uid(65_534).gid(65_534).current_dir("/").output() {
        Ok(output) => output,
        Err(error) => return skip(name, &format!("dwell cannot be started as another user: {error}")),
    };
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(text_of(&output).contains("note     pss, uss, read and write are missing"), "{}", text_of(&output));
    for row in csv_rows(&file) {
        assert!(row["rss_mb"].parse::<f64>().unwrap() > 0.0 && !row["anon_mb"].is_empty());
        assert!(["pss_mb", "uss_mb", "read_mb", "write_mb"].iter().all(|&column| row[column].is_empty()), "{row:?}");
    }
}

#[test]
fn an_id_that_another_program_gets_ends_the_watch() {
    let work = Workplace::new();
    let file = work.path().join("samples.csv");
    let mut idle = Program::idle();
    let pid = idle.0.id();
    let mut watching = watch(&["--pid", &idle.pid(), "--json", "-o"]).arg(&file).stdout(Stdio::null()).spawn().unwrap();
    wait_for("samples", || (fs::read_to_string(&file).unwrap_or_default().lines().count() > 3).then_some(()));
    idle.0.kill().unwrap();
    idle.0.wait().unwrap();
    let Some(stranger) = start_with_id(pid) else {
        watching.wait().unwrap();
        return skip("an_id_that_another_program_gets_ends_the_watch", "the next process id cannot be chosen here");
    };
    assert_eq!(watching.wait().unwrap().code(), Some(0), "it goes on with another program");
    assert!(Path::new(&format!("/proc/{pid}/stat")).exists());
    drop(stranger);
}

fn start_with_id(pid: u32) -> Option<Program> {
    for _ in 0..1000 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let program = Program::idle();
        if program.0.id() == pid {
            return Some(program);
        }
    }
    None
}

#[test]
fn a_full_disk_is_said_and_what_was_written_is_whole() {
    let disk = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(disk.path()).status().is_ok_and(|it| it.success())
    };
    if !mount("size=1m") {
        return skip("watch: a_full_disk_is_said_and_what_was_written_is_whole", "mounting a tmpfs needs root");
    }
    let idle = Program::idle();
    let fill = |name: &str| {
        let file = disk.path().join(name);
        let output = watch(&["--interval", "0.001", "--pid", &idle.pid(), "-o"]).arg(&file).output().unwrap();
        assert_refused(&output, "found no space left on the device");
        (file, output)
    };
    let (csv, _) = fill("samples.csv");
    assert!(csv_rows(&csv).len() > 10);
    fs::remove_file(&csv).unwrap();
    let (table, output) = fill("samples.parquet");
    assert!(text_of(&output).contains(&format!("`dwell recover {}`", table.display())), "{}", text_of(&output));
    assert!(mount("remount,size=8m"));
    let output = dwell().args(["recover", "--json"]).arg(&table).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(summary(&output)["rows"].as_u64().unwrap() > 10);
    assert!(Command::new("umount").arg("--lazy").arg(disk.path()).status().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_costs_nothing() {
    let idle = Program::idle();
    let mut watching = watch(&["--pid", &idle.pid(), "--max-samples", "5"]);
    let mut watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(watching.stdout.take());
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(!text_of(&output).contains("panicked"), "{}", text_of(&output));
}

#[test]
fn processes_that_come_and_go_all_the_time_are_no_error() {
    let script = "for i in $(seq 300); do true & /bin/true; done; wait";
    let output = watch(&["--interval", "0.001", "--json", "--", "bash", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(summary(&output)["processes"].as_array().unwrap().len() > 1, "{}", text_of(&output));
}
