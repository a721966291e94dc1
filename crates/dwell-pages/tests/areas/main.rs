//! A program that writes and reads known pages, watched from outside.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use dwell_pages::{References, WriteTracker};

const PAGE: u64 = 4096;

/// A running `areas.c`.
struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start() -> Self {
        static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
        let dir = DIR.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/areas/areas.c");
            let compiled = Command::new("cc").args(["-O1", "-o"]).arg(dir.path().join("areas")).arg(source).status();
            assert!(compiled.unwrap().success());
            dir
        });
        let mut child =
            Command::new(dir.path().join("areas")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, orders, answers }
    }

    /// Gives an order and waits until it is done. Returns the address of the area.
    fn told(&mut self, order: &str) -> u64 {
        writeln!(self.orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let address = answer.split(' ').next().unwrap();
        u64::from_str_radix(address, 16).unwrap_or_else(|_| panic!("{answer:?}"))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of the pages of an area that a scan found written.
fn written(tracker: &mut WriteTracker, area: u64, pages: u64) -> BTreeSet<u64> {
    let area = area..area + pages * PAGE;
    let mut found = BTreeSet::new();
    let add = |range: Range<u64>| {
        let (begin, end) = (range.start.max(area.start), range.end.min(area.end));
        (begin..end).step_by(PAGE as usize).map(|address| (address - area.start) / PAGE).collect::<Vec<_>>()
    };
    tracker.scan(|written| found.extend(add(written.range))).unwrap();
    found
}

#[test]
fn areas_written_once_hot_read_and_untouched_are_told_apart_page_by_page() {
    let mut program = Program::start();
    let [once, hot, read, untouched] = [0, 1, 2, 3].map(|area| program.told(&format!("n {area} 64")));
    program.told("w 2 0 64");
    let mut tracker = WriteTracker::attach(program.pid()).unwrap();
    tracker.scan(|_| {}).unwrap();
    for round in 0..8_u64 {
        program.told(&format!("w 0 {} 8", round * 8));
        program.told("w 1 5 3");
        program.told("r 2 0 64");
        let mut found: Vec<Range<u64>> = Vec::new();
        tracker.scan(|written| found.push(written.range)).unwrap();
        let pages = |area: u64| -> Vec<u64> {
            let inside = found.iter().filter(|range| (area..area + 64 * PAGE).contains(&range.start));
            inside.flat_map(|range| (range.start - area) / PAGE..(range.end - area) / PAGE).collect()
        };
        assert_eq!(pages(once), (round * 8..round * 8 + 8).collect::<Vec<_>>());
        assert_eq!(pages(hot), [5, 6, 7]);
        assert!(pages(read).is_empty() && pages(untouched).is_empty());
    }
}

#[test]
fn memory_that_is_mapped_while_watching_is_watched_and_reading_it_is_no_write() {
    let mut program = Program::start();
    let mut tracker = WriteTracker::attach(program.pid()).unwrap();
    tracker.scan(|_| {}).unwrap();
    let area = program.told("n 0 32");
    program.told("r 0 0 32");
    program.told("w 0 9 2");
    assert_eq!(written(&mut tracker, area, 32), BTreeSet::from([9, 10]));
    assert!(written(&mut tracker, area, 32).is_empty());
    program.told("w 0 31 1");
    assert_eq!(written(&mut tracker, area, 32), BTreeSet::from([31]));
}

#[test]
fn what_was_written_before_watching_began_is_marked_as_of_unknown_time() {
    let mut program = Program::start();
    let area = program.told("n 0 16");
    program.told("w 0 3 1");
    let mut tracker = WriteTracker::attach(program.pid()).unwrap();
    let mut unknown = Vec::new();
    tracker.scan(|written| unknown.push((written.range.clone(), written.is_of_unknown_time))).unwrap();
    assert!(unknown.contains(&(area + 3 * PAGE..area + 4 * PAGE, true)), "{unknown:?}");
    program.told("w 0 4 1");
    let mut known = Vec::new();
    tracker.scan(|written| known.push((written.range.clone(), written.is_of_unknown_time))).unwrap();
    assert!(known.contains(&(area + 4 * PAGE..area + 5 * PAGE, false)), "{known:?}");
}

#[test]
fn mappings_that_were_read_are_told_from_those_that_were_not() {
    let mut program = Program::start();
    let [read, idle] = [0, 1].map(|area| program.told(&format!("n {area} 64")));
    program.told("w 0 0 64");
    program.told("w 1 0 64");
    let references = References::begin(program.pid()).unwrap();
    program.told("r 0 0 10");
    let found = references.take().unwrap();
    let bytes = |area: u64| found.iter().find(|found| found.range.contains(&area)).map_or(0, |found| found.bytes);
    assert_eq!((bytes(read), bytes(idle)), (10 * PAGE, 0));
}

#[test]
fn the_program_keeps_no_descriptor_and_works_on_after_the_watcher_is_gone() {
    let mut program = Program::start();
    program.told("n 0 16");
    let mut tracker = WriteTracker::attach(program.pid()).unwrap();
    tracker.scan(|_| {}).unwrap();
    let held = fs::read_dir(format!("/proc/{}/fd", program.pid())).unwrap();
    let held: Vec<_> = held.map(|entry| fs::read_link(entry.unwrap().path()).unwrap()).collect();
    assert!(held.iter().all(|target| !target.to_string_lossy().contains("userfaultfd")), "{held:?}");
    drop(tracker);
    program.told("w 0 0 16");
    assert!(program.child.try_wait().unwrap().is_none());
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    assert!(status.contains("TracerPid:\t0"), "{status}");
    assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    // It can be watched again.
    WriteTracker::attach(program.pid()).unwrap().scan(|_| {}).unwrap();
}

#[test]
fn a_program_that_ends_is_told_to_be_gone_and_can_be_waited_for() {
    let mut program = Program::start();
    let mut tracker = WriteTracker::attach(program.pid()).unwrap();
    tracker.scan(|_| {}).unwrap();
    program.child.kill().unwrap();
    assert!(!program.child.wait().unwrap().success());
    assert!(tracker.scan(|_| {}).unwrap_err().is_gone());
    let pid = program.pid();
    assert!(WriteTracker::attach(pid).err().unwrap().is_gone());
}
