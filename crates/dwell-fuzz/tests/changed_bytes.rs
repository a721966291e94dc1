//! Every target with its seeds: as they are, cut at every byte, and changed. No panic, no hang, little memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dwell_fuzz::{ALL, Target};

/// Changed files of each target. The slowest target takes about a millisecond for each.
const CHANGED_FILES: u64 = 600;
/// Cuts of each seed; a longer one is cut at so many places.
const CUTS: usize = 400;
/// Far more than any decoder holds for a small file, and far less than what one can state.
const MEMORY_MAX_BYTES: usize = 64 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpus().join(target.name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// SplitMix64: the same files in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Changes a few places: a byte, a number that is as large as can be, a part that is left out or comes twice.
fn changed(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len());
        let length = (1 + random.below(9)).min(bytes.len() - at);
        match random.below(5) {
            0 => bytes[at..at + length].fill(0xff),
            1 => bytes[at..at + length].fill(0),
            2 => drop(bytes.drain(at..at + length)),
            3 => {
                let part = bytes[at..at + length].to_vec();
                bytes.splice(at..at, part);
            }
            _ => bytes[at] = random.next() as u8,
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

fn survives(target: &Target, bytes: &[u8]) {
    let ((), most) = counting_allocator::most_held_during(|| (target.run)(bytes));
    assert!(most < MEMORY_MAX_BYTES, "{} held {most} bytes for {} bytes: {bytes:x?}", target.name, bytes.len());
}

fn check(name: &str) {
    let target = dwell_fuzz::target(name).unwrap();
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        let step = seed.len().div_ceil(CUTS).max(1);
        (0..=seed.len()).step_by(step).for_each(|length| survives(target, &seed[..length]));
        survives(target, seed);
    }
    let mut random = Random(1);
    for round in 0..CHANGED_FILES {
        survives(target, &changed(&seeds[round as usize % seeds.len()], &mut random));
    }
}

/// One test for each target, so that a failure names it.
macro_rules! each_target {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

each_target! {
    alloc_ring browser codec experiment gguf kv_json kv_msgpack lackey manifest memray metadata ndjson observe perf_data
    perf_script prometheus raw_stream rules sse tensor_stream wire_records zmtp
}

#[test]
fn every_target_is_tested_and_has_its_folder_of_seeds() {
    let names: BTreeSet<&str> = ALL.iter().map(|target| target.name).collect();
    assert_eq!(TESTED.iter().copied().collect::<BTreeSet<_>>(), names);
    let folders: BTreeSet<String> =
        fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders.iter().map(String::as_str).collect::<BTreeSet<_>>(), names);
}
