//! Processes that end, are not there, or may not be looked into.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod child;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use child::Child;
use dwell_events::Hint;
use dwell_process::{ProcessError, Sampler};
use skip::skip;

#[test]
#[ignore = "child process of the other tests"]
fn the_child_program() {
    child::run_if_asked();
}

fn sample_count(sampler: &mut Sampler) -> usize {
    let mut rows = Vec::new();
    sampler.sample_into(&mut rows);
    rows.len()
}

#[test]
fn a_process_that_ended_has_no_row_and_is_gone_even_before_its_parent_noticed() {
    let mut child = Child::start();
    let pid = child.pid();
    let own_pid = std::process::id();
    let mut sampler = Sampler::new(&[("child", pid), ("self", own_pid)]).unwrap();
    assert_eq!(sample_count(&mut sampler), 2);
    assert!(!sampler.is_gone(pid));
    child.tell_to_end();
    // Nobody waits for the child, so it stays a zombie.
    while !sampler.is_gone(pid) {
        sample_count(&mut sampler);
        thread::yield_now();
    }
    assert_eq!(sample_count(&mut sampler), 1);
    assert!(!sampler.is_gone(own_pid) && !sampler.are_all_gone());
    child.wait();
    assert!(matches!(sampler.watch("child", pid), Err(ProcessError::NoSuchProcess { .. })));
}

#[test]
fn a_process_reaped_between_two_samples_is_gone() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    child.tell_to_end();
    child.wait();
    assert_eq!(sample_count(&mut sampler), 0);
    assert!(sampler.is_gone(child.pid()) && sampler.are_all_gone());
}

#[test]
fn a_process_that_is_not_there_is_refused_by_its_number() {
    // Process ids end at 2^22.
    let error = Sampler::new(&[("worker", 4_194_305)]).err().unwrap();
    assert_eq!(error.to_string(), "no process has the id 4194305");
    assert_eq!(error.hints(), ["list the processes: ps -ef"]);
}

#[test]
fn a_kernel_thread_is_refused() {
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        return skip("a_kernel_thread_is_refused", "process 2 is no kernel thread here, or cannot be seen");
    }
    let error = Sampler::new(&[("worker", 2)]).err().unwrap();
    assert!(matches!(error, ProcessError::KernelThread { pid: 2, .. }), "{error}");
}

#[test]
fn another_users_process_shows_its_sizes_but_not_its_io_or_shares() {
    if !rustix_is_root() {
        let name = "another_users_process_shows_its_sizes_but_not_its_io_or_shares";
        return skip(name, "only root can start a process as another user");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("child");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.uid(65_534).gid(65_534).current_dir("/");
    let mut stranger = Child::start_command(command);
    assert_eq!(stranger.ask(&format!("sample {}", std::process::id())), "true false false");
    assert_eq!(stranger.ask(&format!("sample {}", stranger.pid())), "true true true");
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
