//! Programs whose allocations are known, recorded call by call.

#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod lab;

use std::collections::HashMap;
use std::process::Command;

use dwell_ring::allocations::ReadEvent;
use lab::{Lab, Recorded, recorded_history, succeeded};

#[test]
fn what_four_threads_do_comes_back_call_by_call() {
    let (expected, recorded) = Lab::new().run(&["threads", "4", "10000"]);
    assert_eq!(expected.len(), 4);
    assert!(expected.values().map(Vec::len).sum::<usize>() > 40_000);
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].lost, (0, 0));
    assert!(recorded_history(&recorded) == expected, "what was recorded is not what was done");
    hands_memory_on_in_order(&recorded[0].events);
}

/// Sorted by time, memory is given back before somebody else has it.
fn hands_memory_on_in_order(events: &[ReadEvent]) {
    let mut sorted: Vec<&ReadEvent> = events.iter().collect();
    sorted.sort_by_key(|event| event.order());
    let (mut live, mut handed_on) = (HashMap::new(), 0);
    for event in sorted.iter().filter(|event| !event.call.is_of_pages()) {
        if event.call.allocates() {
            let before = live.insert(event.address, event.thread);
            assert_eq!(before, None, "{event:?}: somebody has it");
        } else if let Some(owner) = live.remove(&event.address) {
            handed_on += u32::from(owner != event.thread);
        }
    }
    assert!(handed_on > 1000, "{handed_on} were freed by another thread than had allocated them");
}

#[test]
fn each_function_comes_back_and_what_failed_is_undone() {
    let (expected, recorded) = Lab::new().run(&["families"]);
    assert_eq!(recorded_history(&recorded), expected);
    assert_eq!(expected.values().next().unwrap().len(), 27);
}

#[test]
fn children_have_rings_of_their_own_however_they_were_forked() {
    let (expected, recorded) = Lab::new().run(&["fork"]);
    assert_eq!(expected.len(), 3);
    assert_eq!(recorded_history(&recorded), expected);
    let [parent, by_fork, by_clone, ..] = &recorded[..] else { panic!("{} rings", recorded.len()) };
    for child in [by_fork, by_clone] {
        let from = child.process.parent.unwrap();
        assert_eq!((from.pid, from.made_ns), (parent.process.pid, parent.process.made_ns));
        assert!(from.forked_ns >= parent.process.made_ns && from.forked_ns <= child.process.made_ns + 1000);
    }
    // `system` started a shell, and that `true`, unless the shell knows it.
    assert!(recorded[3..].iter().all(|other| other.process.parent.is_none()));
    assert!(recorded.len() > 3);
}

#[test]
fn a_ring_is_made_whatever_lies_on_the_stack() {
    let lab = Lab::with_program("dirty_stack.c");
    succeeded(lab.command(&[], 32 << 20).output().unwrap());
    let is_there = |recorded: &Recorded| recorded.events.iter().any(|event| event.size_bytes == 12345);
    assert!(lab.recorded().iter().any(is_there));
}

#[test]
fn a_process_that_becomes_another_program_has_one_ring_for_each() {
    let (expected, recorded) = Lab::new().run(&["exec"]);
    let pids: Vec<u32> = recorded.iter().map(|recorded| recorded.process.pid).collect();
    assert_eq!((pids.len(), pids[0]), (2, pids[1]));
    assert!(recorded[0].events.iter().any(|event| event.size_bytes == 333));
    assert_eq!(recorded_history(&recorded), expected);
}

#[test]
fn a_killed_process_leaves_everything_in_its_ring() {
    let (expected, recorded) = Lab::new().run_and_kill(&["wait", "4", "5000"]);
    assert_eq!(expected.len(), 4);
    assert!(recorded_history(&recorded) == expected, "what was recorded is not what was done");
}

#[test]
fn a_full_ring_that_nobody_empties_stops_no_one_and_what_is_missing_is_counted() {
    let events_and_lost = |ring_bytes: usize| {
        let lab = Lab::new();
        succeeded(lab.command(&["flood", "4", "30000"], ring_bytes).output().unwrap());
        let [Recorded { events, lost, .. }] = &lab.recorded()[..] else { panic!("one ring") };
        assert_eq!(lost.1, 0);
        (events.len() as u64, lost.0)
    };
    let (all, none) = events_and_lost(32 << 20);
    assert!(all > 240_000 && none == 0, "{all} {none}");
    let (some, lost) = events_and_lost(8 << 12);
    assert!(some <= 8 * 126 && lost > 0, "{some} {lost}");
    assert_eq!(some + lost, all);
}

#[test]
fn an_allocator_that_is_loaded_beside_the_recorder_goes_on_working() {
    let (expected, recorded) = Lab::new().run_beside_other_allocator(&["threads", "2", "3000"]);
    assert_eq!(expected.len(), 2);
    assert!(recorded_history(&recorded) == expected, "what was recorded is not what was done");
}

#[test]
fn what_a_signal_handler_does_is_recorded_or_counted() {
    let lab = Lab::new();
    succeeded(lab.command(&["handler"], 64 << 20).output().unwrap());
    let [Recorded { events, lost, .. }] = &lab.recorded()[..] else { panic!("one ring") };
    let pages = events.iter().filter(|event| event.call.is_of_pages()).count() as u64;
    assert_eq!(events.iter().filter(|event| event.size_bytes == 64).count(), 300_000);
    assert_eq!(lost.0, 0);
    assert!(pages > 0);
    assert!((pages + lost.1).is_multiple_of(2), "{pages} {lost:?}");
}

#[test]
fn without_a_folder_or_with_one_that_is_not_there_the_program_does_what_it_did() {
    let lab = Lab::new();
    let plain = succeeded(Command::new(lab.program()).arg("families").output().unwrap());
    let calls = |said: &str| said.lines().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect::<Vec<_>>();
    for folder in [None, Some("/nowhere"), Some("")] {
        let mut command = Command::new(lab.program());
        command.arg("families").env("LD_PRELOAD", lab::library());
        folder.map(|folder| command.env("DWELL_ALLOC_DIR", folder));
        assert_eq!(calls(&succeeded(command.output().unwrap())), calls(&plain), "{folder:?}");
    }
}
