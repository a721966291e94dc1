//! The heap of a process that asked for huge pages. A program of its own, because the settings are the whole process's.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::process::Command;

use dwell_host::work_in_huge_pages;

const BLOCK_BYTES: usize = 4 << 20;

/// The kernel's marks of the mapping that an address is in.
fn mapping_flags(address: usize) -> String {
    let mut is_inside = false;
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let bounds = line.split_once(' ').and_then(|(bounds, _)| bounds.split_once('-'));
        let bounds = bounds.and_then(|(begin, end)| {
            Some(usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(bounds) = bounds {
            is_inside = bounds.contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_inside) {
            return flags.to_owned();
        }
    }
    panic!("no mapping holds {address:x}");
}

#[test]
fn blocks_of_megabytes_lie_in_memory_that_may_have_huge_pages() {
    let test = "blocks_of_megabytes_lie_in_memory_that_may_have_huge_pages";
    if !fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap() {
        return skip::skip(test, "the kernel has no huge pages");
    }
    let words = ["--exact", "print_flags_of_a_block", "--ignored", "--nocapture"];
    let mut child = Command::new(std::env::current_exe().unwrap());
    // A test has a thread of its own, which shall use the heap of the main one here.
    let child = child.args(words).env("MALLOC_ARENA_MAX", "1").output().unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    let lines: Vec<&str> = said.lines().filter_map(|line| line.split_once("flags ").map(|(_, flags)| flags)).collect();
    let [before, after] = lines[..] else { panic!("{said}") };
    let is_advised = |flags: &str| flags.split(' ').any(|flag| flag == "hg");
    assert!(!is_advised(before), "{before}");
    assert!(is_advised(after), "{after}");
}

#[test]
#[ignore = "child process of blocks_of_megabytes_lie_in_memory_that_may_have_huge_pages"]
fn print_flags_of_a_block() {
    for is_asked_for in [false, true] {
        if is_asked_for {
            work_in_huge_pages();
        }
        let block = vec![1u8; BLOCK_BYTES];
        println!("flags {}", mapping_flags(block.as_ptr_range().end as usize - 1));
    }
}
