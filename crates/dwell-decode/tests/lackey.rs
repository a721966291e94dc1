//! What valgrind's lackey writes, read from known truth, cut anywhere, and damaged.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::Read;

use dwell_decode::error::DecodeError;
use dwell_decode::lackey::{LackeyAccess, LackeyClock, LackeyCounts, LackeyDecoder, SkipReason};
use proptest::prelude::*;

const SAMPLE: &str = "==17== Lackey, an example Valgrind tool
==17== Command: ./a.out
I  04001090,3
 L 1ffeffff30,8
I  04001093,5
 S 1ffeffff28,8
I  04001098,2
hello from the program
 M 04222cac,4
 L 04222cb0,16
--17-- a word of valgrind
I  0400109a,1
==17== 
";

fn access(ordinal: u64, is_store: bool, address: u64, size_bytes: u64) -> LackeyAccess {
    LackeyAccess { ordinal, is_store, address, size_bytes }
}

/// Gives a few bytes at a time, so that lines lie across reads.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.1.min(self.0.len()).min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.0[..bytes]);
        self.0 = &self.0[bytes..];
        Ok(bytes)
    }
}

fn decoded(pieces: &[&[u8]], step: usize) -> (Vec<LackeyAccess>, LackeyDecoder) {
    let (mut decoder, mut found) = (LackeyDecoder::default(), Vec::new());
    for piece in pieces {
        let mut each = |access| -> Result<(), DecodeError> {
            found.push(access);
            Ok(())
        };
        decoder.read(&mut Slow(piece, step), &mut each).unwrap();
    }
    (found, decoder)
}

fn skipped(counts: &LackeyCounts, reason: SkipReason) -> (u64, Vec<(u64, &str)>) {
    let lines = &counts.skipped[reason as usize];
    (lines.count, lines.first.iter().map(|(offset, text)| (*offset, text.as_str())).collect())
}

#[test]
fn accesses_are_timed_by_the_instructions_so_far() {
    for step in [1, 7, 1 << 20] {
        let (found, decoder) = decoded(&[SAMPLE.as_bytes()], step);
        let expected = [
            access(1, false, 0x1ffeffff30, 8),
            access(2, true, 0x1ffeffff28, 8),
            access(3, false, 0x4222cac, 4),
            access(3, true, 0x4222cac, 4),
            access(3, false, 0x4222cb0, 16),
        ];
        assert_eq!(found, expected);
        assert_eq!(decoder.clock(), Some(LackeyClock::Instructions));
        let counts = decoder.counts();
        assert_eq!((counts.lines, counts.bytes), (13, SAMPLE.len() as u64));
        assert_eq!((counts.instructions, counts.loads, counts.stores, counts.modifications), (4, 2, 1, 1));
        let valgrind = skipped(counts, SkipReason::Valgrind);
        assert_eq!((valgrind.0, valgrind.1[1]), (4, (40, "==17== Command: ./a.out")));
        assert_eq!(valgrind.1.len(), 3);
        let offset = SAMPLE.find("hello").unwrap() as u64;
        assert_eq!(skipped(counts, SkipReason::OtherText), (1, vec![(offset, "hello from the program")]));
    }
}

#[test]
fn without_instructions_accesses_count_themselves() {
    let data: String = SAMPLE.lines().filter(|line| !line.starts_with('I')).map(|line| format!("{line}\n")).collect();
    let (found, decoder) = decoded(&[data.as_bytes(), b" S 10,1\n"], 5);
    assert_eq!(decoder.clock(), Some(LackeyClock::Accesses));
    assert_eq!(found.iter().map(|access| access.ordinal).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(decoder.counts().accesses(), 6);
}

#[test]
fn numbers_that_cannot_be_are_counted_with_their_lines() {
    let bad = [
        " L ,8",
        " L 10,",
        " L 10",
        " L 1g,8",
        " L 12345678901234567,8",
        " L 10,0",
        " L 10,65537",
        " L 10,999999999999",
        " L ffffffffffffffff,8",
        " L 10,8 ",
        " L 10,8,8",
        " L  10,8",
        " S 10,-8",
    ];
    let text: String = bad.iter().map(|line| format!("{line}\n")).collect();
    let (found, decoder) = decoded(&[text.as_bytes()], 1 << 20);
    assert_eq!(found, []);
    let (count, first) = skipped(decoder.counts(), SkipReason::BadNumber);
    assert_eq!((count, first[0]), (bad.len() as u64, (0, " L ,8")));
    let (edge, _) = decoded(&[b" L fffffffffffffff7,8\n L FFFF,65536\n"], 3);
    assert_eq!(edge, [access(0, false, u64::MAX - 8, 8), access(1, false, 0xffff, 65536)]);
}

#[test]
fn a_line_that_never_ends_takes_no_memory_and_is_counted() {
    let mut text = vec![b'x'; 5 << 20];
    text.extend_from_slice(b"\n L 10,8\n");
    let (found, decoder) = decoded(&[&text], 1 << 20);
    assert_eq!(found, [access(0, false, 0x10, 8)]);
    assert_eq!(decoder.counts().skipped[SkipReason::TooLong as usize].bytes, 5 << 20);
    let (_, decoder) = decoded(&[&text[..3 << 20]], 1 << 20);
    assert_eq!(decoder.counts().skipped[SkipReason::CutOff as usize].bytes, 3 << 20);
    assert_eq!(decoder.counts().bytes, 3 << 20);
}

#[test]
fn a_recording_that_is_cut_anywhere_gives_what_is_whole() {
    let (whole, _) = decoded(&[SAMPLE.as_bytes()], 1 << 20);
    for cut in 0..SAMPLE.len() {
        let (found, decoder) = decoded(&[&SAMPLE.as_bytes()[..cut]], 1 << 20);
        assert!(whole.starts_with(&found), "{cut}");
        let is_at_line_end = cut == 0 || SAMPLE.as_bytes()[cut - 1] == b'\n';
        let cut_off = &decoder.counts().skipped[SkipReason::CutOff as usize];
        assert_eq!((cut_off.count, decoder.counts().bytes), (u64::from(!is_at_line_end), cut as u64), "{cut}");
    }
}

#[test]
fn what_the_caller_refuses_ends_the_reading() {
    let mut decoder = LackeyDecoder::default();
    let mut each = |_| Err(DecodeError::new(7, dwell_decode::error::DecodeReason::Malformed("enough".to_owned())));
    let refused = decoder.read(&mut SAMPLE.as_bytes(), &mut each).unwrap_err();
    assert_eq!(refused.offset, 7);
}

proptest! {
    #[test]
    fn damaged_bytes_are_counted_line_by_line(
        changes in prop::collection::vec((0..SAMPLE.len(), any::<u8>()), 0..20),
        step in 1usize..40,
    ) {
        let mut text = SAMPLE.as_bytes().to_vec();
        for (place, byte) in changes {
            text[place] = byte;
        }
        let (found, decoder) = decoded(&[&text], step);
        let counts = decoder.counts();
        let skipped: u64 = counts.skipped.iter().map(|lines| lines.count).sum();
        let rows = counts.instructions + counts.loads + counts.stores + counts.modifications;
        prop_assert_eq!(counts.lines, rows + skipped);
        prop_assert_eq!(counts.bytes, text.len() as u64);
        prop_assert_eq!(found.len() as u64, counts.accesses());
    }
}
