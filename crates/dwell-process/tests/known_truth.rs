//! A program that takes known amounts of everything, and what the sampler says about it.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod child;

use child::{Child, MIB, PAGE_BYTES};
use dwell_events::schema::memory::MemoryRow;
use dwell_process::{RollupPolicy, Sampler};

/// Kernels before 6.16 do not sum up their per-CPU counters; the child's own bookkeeping takes some pages too.
fn tolerance_bytes() -> u64 {
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    cpus * 32 * PAGE_BYTES + MIB / 2
}

fn sample(sampler: &mut Sampler) -> MemoryRow {
    let mut rows = Vec::new();
    sampler.sample_into(&mut rows);
    rows.pop().unwrap()
}

fn assert_grew_by(what: &str, before: Option<u64>, after: Option<u64>, expected_bytes: u64) {
    let grown = after.unwrap() as i64 - before.unwrap() as i64;
    let error = (grown - expected_bytes as i64).unsigned_abs();
    assert!(error <= tolerance_bytes(), "{what} grew by {grown}, not by {expected_bytes}");
}

#[test]
#[ignore = "child process of the other tests"]
fn the_child_program() {
    child::run_if_asked();
}

#[test]
fn touched_anonymous_memory_comes_back_as_anonymous() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let before = sample(&mut sampler);
    child.ask("anonymous 64");
    let after = sample(&mut sampler);
    assert_grew_by("rss", Some(before.rss_bytes), Some(after.rss_bytes), 64 * MIB);
    assert_grew_by("anon", before.anon_bytes, after.anon_bytes, 64 * MIB);
    assert_grew_by("file", before.file_bytes, after.file_bytes, 0);
    // At least one fault for each of the largest pages there are.
    assert!(after.minor_faults.unwrap() >= before.minor_faults.unwrap() + 64 / 2);
    assert_eq!(after.label, "child");
    assert_eq!(after.pid, child.pid());
    assert_eq!(after.threads, before.threads);
}

#[test]
fn untouched_memory_is_virtual_and_not_resident() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let before = sample(&mut sampler);
    child.ask("reserve 256");
    let after = sample(&mut sampler);
    assert_grew_by("vms", Some(before.vms_bytes), Some(after.vms_bytes), 256 * MIB);
    assert_grew_by("rss", Some(before.rss_bytes), Some(after.rss_bytes), 0);
}

#[test]
fn a_mapped_file_and_shared_memory_come_back_as_such() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let before = sample(&mut sampler);
    child.ask("file 32");
    let with_file = sample(&mut sampler);
    assert_grew_by("file", before.file_bytes, with_file.file_bytes, 32 * MIB);
    assert_grew_by("anon", before.anon_bytes, with_file.anon_bytes, 0);
    child.ask("shared 16");
    let with_both = sample(&mut sampler);
    assert_grew_by("shmem", with_file.shmem_bytes, with_both.shmem_bytes, 16 * MIB);
    assert_grew_by("rss", Some(before.rss_bytes), Some(with_both.rss_bytes), 48 * MIB);
}

#[test]
fn memory_of_its_own_leaves_out_what_is_shared_with_the_parent() {
    let mut child = Child::start();
    child.ask("anonymous 64");
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let row = sample(&mut sampler);
    let (pss_bytes, uss_bytes) = (row.pss_bytes.unwrap(), row.uss_bytes.unwrap());
    assert!(uss_bytes >= 64 * MIB && uss_bytes <= pss_bytes && pss_bytes <= row.rss_bytes + tolerance_bytes());
    assert_eq!(sample(&mut sampler).pss_bytes, None, "the next walk is not due yet");
}

#[test]
fn with_the_walk_turned_off_nothing_is_said_about_shares() {
    let child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap().with_rollup_policy(RollupPolicy::never());
    let row = sample(&mut sampler);
    assert_eq!((row.pss_bytes, row.uss_bytes), (None, None));
    assert!(row.swap_bytes.is_some());
}

#[test]
fn cpu_time_is_what_the_program_says_it_used_whether_its_threads_live_or_not() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let before = sample(&mut sampler);
    assert_eq!(before.cpu_pct, None, "there is nothing to compare the first sample with");
    let mut previous_ns = before.cpu_ns.unwrap();
    for order in ["spin 150", "spin_in_threads 60", "spin_in_kept_threads 60", "spin 50"] {
        let said_ns: u64 = child.ask(order).parse().unwrap();
        let row = sample(&mut sampler);
        let found_ns = row.cpu_ns.unwrap();
        // 20 ms is the collector's promise; the rest is what the child does after it has read its clock.
        assert!(found_ns.abs_diff(said_ns) <= 25_000_000, "{order}: found {found_ns}, said {said_ns}");
        assert!(found_ns > previous_ns && row.cpu_pct.unwrap() > 0.0);
        previous_ns = found_ns;
    }
    assert_eq!(sample(&mut sampler).threads.unwrap(), before.threads.unwrap() + child::THREADS as u32);
}

#[test]
fn bytes_written_to_storage_are_counted() {
    let mut child = Child::start();
    let mut sampler = Sampler::new(&[("child", child.pid())]).unwrap();
    let before = sample(&mut sampler).write_bytes.unwrap();
    child.ask("write 8");
    let written = sample(&mut sampler).write_bytes.unwrap() - before;
    // A temporary directory in memory has no storage behind it.
    assert!(written == 0 || written >= 8 * MIB, "{written}");
}
