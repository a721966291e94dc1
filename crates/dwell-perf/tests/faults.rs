//! Page faults of this thread, counted and sampled.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::hint::black_box;
use std::io::ErrorKind;

use dwell_perf::{Attributes, RingReader, Rings, SampledEvent, flags, kinds, sampled, software};
use skip::skip;

const PAGE_BYTES: usize = 4096;
const CLOCK_MONOTONIC: i32 = 1;
/// Fewer than a huge page has, which would be touched at once.
const PAGES: usize = 400;
/// Head, address.
const SAMPLE_BYTES: usize = 16;

fn faults() -> SampledEvent {
    let attributes = Attributes::of_user(kinds::SOFTWARE, software::PAGE_FAULTS).sampled(1, sampled::ADDR);
    let attributes = Attributes { counts_lost: true, ..attributes };
    SampledEvent { name: "page-faults".to_owned(), leader: None, attributes, cpus: None }
}

/// Rings of at most so many bytes, with the faults of this thread; none where that is forbidden.
fn watched(test: &str, most_ring_bytes: usize) -> Option<(Rings, RingReader)> {
    let cpus: Vec<u32> = (0..std::thread::available_parallelism().unwrap().get() as u32).collect();
    let begun = Rings::new(&cpus, CLOCK_MONOTONIC, most_ring_bytes).and_then(|(mut rings, reader)| {
        let opened = rings.open(&faults(), None, flags::DISABLED)?;
        assert_eq!(opened.ids.len(), cpus.len());
        opened.enable()?;
        rings.keep(opened);
        Ok((rings, reader))
    });
    match begun {
        Ok(begun) => Some(begun),
        // Kernels before 6.0 do not count what was lost.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
            skip(test, &format!("perf events cannot be opened: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Touches pages that nobody has touched. Returns the addresses of their first bytes.
fn touch(pages: usize) -> Vec<u64> {
    let mut memory = vec![0_u8; (pages + 1) * PAGE_BYTES];
    let begin = (memory.as_ptr().addr()).next_multiple_of(PAGE_BYTES) - memory.as_ptr().addr();
    let whole = memory[begin..].chunks_exact_mut(PAGE_BYTES).take(pages);
    whole
        .map(|page| {
            *black_box(&mut page[0]) = 1;
            page.as_ptr().addr() as u64
        })
        .collect()
}

fn sampled_addresses(records: &[u8]) -> Vec<u64> {
    let samples = records.chunks_exact(SAMPLE_BYTES).filter(|record| record[0] == 9);
    samples.map(|record| u64::from_ne_bytes(*record[8..].first_chunk().unwrap())).collect()
}

#[test]
fn every_page_that_is_touched_is_sampled_once_with_its_address() {
    let Some((rings, mut reader)) = watched("every_page_that_is_touched_is_sampled_once_with_its_address", 1 << 18)
    else {
        return;
    };
    let touched = touch(PAGES);
    let counted = rings.stop();
    let mut records = Vec::new();
    reader.drain(&mut records);
    let seen = sampled_addresses(&records);
    assert_eq!(counted.lost, 0);
    assert_eq!(counted.events, seen.len() as u64);
    for page in &touched {
        let of_page = seen.iter().filter(|address| (*page..page + PAGE_BYTES as u64).contains(address));
        assert_eq!(of_page.count(), 1, "{page:#x}");
    }
    records.clear();
    reader.drain(&mut records);
    assert!(records.is_empty(), "records were taken out twice");
}

#[test]
fn what_a_full_ring_has_no_room_for_is_counted_to_the_last_fault() {
    let Some((rings, mut reader)) =
        watched("what_a_full_ring_has_no_room_for_is_counted_to_the_last_fault", PAGE_BYTES)
    else {
        return;
    };
    assert_eq!(rings.ring_bytes(), PAGE_BYTES);
    let touched = touch(PAGES);
    let counted = rings.stop();
    let mut records = Vec::new();
    reader.drain(&mut records);
    let seen = sampled_addresses(&records).len() as u64;
    assert!(counted.events >= touched.len() as u64 && counted.lost > 0, "{counted:?}");
    assert_eq!(counted.events, seen + counted.lost);
}
