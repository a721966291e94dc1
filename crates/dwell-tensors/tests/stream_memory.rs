//! Memory stays below its limit while the disk is slower than the producers.
//!
//! The disk is made slow by the kernel (blkio of cgroup v1), which holds for writes past the page cache. It needs root.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{head, pattern, skip};
use dwell_tensors::{Codec, Handover, Pressure, StreamOptions, TensorFile, TensorStream, verify};

const STREAM: &str = "DWELL_TEST_STREAM";
const POLICY: &str = "DWELL_TEST_POLICY";
const CODEC: &str = "DWELL_TEST_CODEC";
const SLOW_BYTES_PER_S: u64 = 40 << 20;
const MAX_MEMORY_BYTES: u64 = 48 << 20;
/// What the program itself, stacks, heads and the index may take besides.
const REST_BYTES: u64 = 12 << 20;
const TENSORS: u64 = 60;

/// A group of processes whose writes to one disk are slow.
struct SlowDisk {
    group: PathBuf,
}

impl SlowDisk {
    /// `None`, noted as a skipped test, where the kernel cannot be asked for one.
    fn new(test: &str, folder: &Path) -> Option<Self> {
        let device = fs::metadata(folder).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let group = PathBuf::from(format!("/sys/fs/cgroup/blkio/dwell-test-{}-{test}", std::process::id()));
        let limit = format!("{major}:{minor} {SLOW_BYTES_PER_S}");
        let made =
            fs::create_dir(&group).and_then(|()| fs::write(group.join("blkio.throttle.write_bps_device"), limit));
        let slow_disk = Self { group };
        if let Err(error) = made {
            skip(test, &format!("the disk cannot be made slow (blkio.throttle.write_bps_device: {error})"));
            return None;
        }
        Some(slow_disk)
    }

    fn take_in(&self, child: &Child) {
        fs::write(self.group.join("cgroup.procs"), child.id().to_string()).unwrap();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group);
    }
}

/// A figure of `/proc/self/status`, in bytes.
fn status_bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
#[ignore = "child process of the tests below, which slow it down"]
fn slowed_process() {
    // Until the parent has put this process where it belongs.
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let path = PathBuf::from(std::env::var_os(STREAM).unwrap());
    let pressure = Pressure::from_name(&std::env::var(POLICY).unwrap()).unwrap();
    let elements = pattern(1, 4 << 20);
    let before_bytes = status_bytes("VmRSS:");
    let options = StreamOptions {
        pressure,
        codec: std::env::var(CODEC).unwrap().parse().unwrap(),
        max_memory_bytes: MAX_MEMORY_BYTES,
        flush_bytes: 8 << 20,
        ..StreamOptions::default()
    };
    let stream = TensorStream::create(&path, options).unwrap();
    let mut taken = 0;
    for step in 0..TENSORS {
        // Sizes change, so that buffers of one size must give way to another.
        let length = if step / 10 % 2 == 0 { 4 << 20 } else { 3 << 19 };
        let outcome = stream.submit(head(&format!("x{}", step % 3), step, length), &elements[..length]).unwrap();
        taken += u64::from(outcome == Handover::Taken);
    }
    let summary = stream.finish().unwrap();
    let peak_bytes = status_bytes("VmHWM:") - before_bytes;
    let most_bytes = MAX_MEMORY_BYTES + REST_BYTES;
    assert!(peak_bytes <= most_bytes, "{peak_bytes} bytes at the highest, and {most_bytes} were allowed");
    assert!(summary.progress.peak_memory_bytes <= MAX_MEMORY_BYTES, "{summary:?}");
    let file = TensorFile::open(&path).unwrap();
    let dropped: u64 = file.dropped().values().map(|(packets, _)| packets).sum();
    assert_eq!((file.packets().len() as u64, dropped), (taken, TENSORS - taken));
    assert_eq!(taken == TENSORS, pressure != Pressure::Drop, "{taken} of {TENSORS} taken");
    if pressure == Pressure::Block {
        assert!(!summary.progress.producers_waited.is_zero());
    }
    assert!(verify(&path).unwrap().is_sound());
}

fn run_slowed(test: &str, pressure: Pressure, codec: Codec) {
    let dir = tempfile::tempdir().unwrap();
    let Some(slow_disk) = SlowDisk::new(test, dir.path()) else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "slowed_process"])
        .env(STREAM, dir.path().join("a.tensors"))
        .env(POLICY, pressure.name())
        .env(CODEC, codec.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    slow_disk.take_in(&child);
    child.stdin.take().unwrap().write_all(b"!").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_slow_disk_under_block() {
    run_slowed("a_slow_disk_under_block", Pressure::Block, Codec::None);
}

#[test]
fn a_slow_disk_under_drop() {
    run_slowed("a_slow_disk_under_drop", Pressure::Drop, Codec::None);
}

#[test]
fn a_slow_disk_under_block_with_a_codec() {
    run_slowed("a_slow_disk_under_block_with_a_codec", Pressure::Block, Codec::Lz4);
}
