//! Parts of a trace that are analysed apart, merged in any order, give the report of the whole, bit for bit.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use arrow_array::RecordBatch;
use dwell_analysis::{Analyser, AnalysisError, ConcludedPart, Definitions, MetricsReport, Options, Part, RowOrder};
use dwell_events::schema::kv_block_lifecycle::{KvBlockBuilder, KvBlockRow};
use dwell_events::schema::trace::{CLEAR_SYMBOL, MAPPED_SYMBOL, TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{BLOCK, ROW};

/// Memory is dealt out to parts in blocks of this size.
const PART_BLOCK: u64 = 1 << 20;

/// What the addresses of the second process have beside those of the first.
const SECOND_PROCESS: u64 = 1 << 56;

/// Rows of which kind a trace has.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Exact,
    Sampled,
    /// Sampled ones, among which others may come.
    Mixed,
}

/// Time since the row before, block, place in it, size, direction, region type, step, process and period.
type RowParts = (i64, u64, (u64, u64), bool, usize, Option<u32>, u64, u64);

fn size_of_row(rows: Rows, size: u64, is_long: bool) -> u64 {
    match rows {
        Rows::Sampled => size % 24,
        _ if is_long => size * 200_000,
        _ => size,
    }
}

/// Rows around the borders of pages and blocks; long ones reach over several blocks.
fn rows(kind: Rows) -> impl Strategy<Value = Vec<TraceRow<'static>>> {
    let step = prop::option::of(0u32..5);
    let place = prop_oneof![Just(PART_BLOCK - 8), Just(0u64), Just(4090), 0u64..64];
    let row = (-1i64..4, 0u64..4, (place, 0u64..16), any::<bool>(), 0usize..7, step, 0u64..2, 1u64..6);
    prop::collection::vec((row, 0u8..12), 0..120).prop_map(move |rows| {
        let mut now_ns: u64 = 1_000;
        let row = |(parts, oddity): (RowParts, u8)| {
            let (pause, block, (place, size), is_store, region, step, process, period) = parts;
            now_ns = now_ns.saturating_add_signed(pause.max(0) * 700_000_000);
            let is_exact = match kind {
                Rows::Exact => true,
                Rows::Sampled => false,
                Rows::Mixed => oddity == 0,
            };
            TraceRow {
                // Some rows are earlier than the one before.
                timestamp_ns: if pause < 0 && oddity == 1 { now_ns - 10 } else { now_ns },
                address: process * SECOND_PROCESS + 0x7f00_0000_0000 + block * PART_BLOCK + place + size * 4,
                size_bytes: size_of_row(kind, size, oddity % 3 == 0),
                op_type: if is_store { OpType::Store } else { OpType::Load },
                region_type: RegionType::ALL[region],
                region_id: (region as u64 * 10 + size % 3) as u32,
                step,
                period: if is_exact { 1 } else { period + 1 },
                symbol: if oddity == 10 {
                    CLEAR_SYMBOL
                } else if oddity == 11 {
                    MAPPED_SYMBOL
                } else {
                    "MUL_MAT"
                },
                ..ROW
            }
        };
        rows.into_iter().map(row).collect()
    })
}

/// Blocks of some tensors of a KV cache, over the memory of the rows.
fn blocks() -> impl Strategy<Value = Option<Vec<KvBlockRow>>> {
    let block = (0u64..5, 0u64..3, 0u64..40, 0u64..3, 0u16..2, prop::option::of(0u64..9));
    let block = block.prop_map(|(block, place, written, reads, layer, end)| KvBlockRow {
        address: 0x7f00_0000_0000 + block * PART_BLOCK + place * 100,
        write_ns: 1_000 + written * 400_000_000,
        last_read_ns: (reads > 0).then_some(1_000 + (written + reads) * 400_000_000),
        evict_ns: end.map(|end| 1_000 + (written + reads + end) * 400_000_000),
        total_reads: reads,
        layer,
        ..BLOCK
    });
    prop::option::of(prop::collection::vec(block, 1..12))
}

fn batch(rows: &[TraceRow<'_>]) -> RecordBatch {
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    builder.finish_batch()
}

fn block_batch(blocks: &[KvBlockRow]) -> RecordBatch {
    let mut builder = KvBlockBuilder::default();
    blocks.iter().for_each(|block| builder.push(*block));
    builder.finish_batch()
}

fn pushed(mut analyser: Analyser, rows: &[TraceRow<'_>], blocks: Option<&[KvBlockRow]>) -> Analyser {
    let blocks = blocks.map(block_batch);
    blocks.iter().for_each(|blocks| analyser.expect_kv_lifecycle(blocks).unwrap());
    // Two batches, so that what is kept between them counts.
    let (first, second) = rows.split_at(rows.len() / 2);
    [first, second].iter().for_each(|rows| analyser.push_trace(&batch(rows)).unwrap());
    blocks.iter().for_each(|blocks| analyser.push_kv_lifecycle(blocks).unwrap());
    analyser
}

fn concluded(options: Options, part: Part, rows: &[TraceRow<'_>], blocks: Option<&[KvBlockRow]>) -> ConcludedPart {
    pushed(Analyser::of_part(options, part), rows, blocks).conclude()
}

/// All that a report says.
fn said(report: &MetricsReport) -> [String; 4] {
    let report_json = serde_json::to_string(report).unwrap();
    [report_json, report.metrics_csv(), report.regions_csv(), report.retention_histogram_csv(7)]
}

fn all_options() -> impl Iterator<Item = Options> {
    let orders = [RowOrder::Ascending, RowOrder::Any];
    let definitions = [Definitions::Dwell, Definitions::MrmTrace];
    let pairs = orders.into_iter().flat_map(move |order| definitions.map(|definitions| (order, definitions)));
    pairs.map(|(row_order, definitions)| Options { definitions, row_order, ..Options::default() })
}

fn check(
    rows: &[TraceRow<'_>],
    blocks: Option<&[KvBlockRow]>,
    of: u32,
    is_last_first: bool,
) -> Result<(), TestCaseError> {
    for options in all_options() {
        let whole = pushed(Analyser::new(options), rows, blocks).finish();
        let mut parts: Vec<ConcludedPart> = Part::all(of).map(|part| concluded(options, part, rows, blocks)).collect();
        if is_last_first {
            parts.reverse();
        }
        // As they would come from other machines.
        let mut parts = parts.iter().map(|part| ConcludedPart::from_bytes(&part.to_bytes().unwrap()).unwrap());
        let mut merged = parts.next().unwrap();
        parts.for_each(|part| merged.merge(part).unwrap());
        prop_assert_eq!(said(&merged.finish().unwrap()), said(&whole), "{:?}", options);
    }
    Ok(())
}

proptest! {
    #[test]
    fn parts_of_exact_rows(rows in rows(Rows::Exact), blocks in blocks(), of in 1u32..=8, is_last_first in any::<bool>()) {
        check(&rows, blocks.as_deref(), of, is_last_first)?;
    }

    #[test]
    fn parts_of_samples(rows in rows(Rows::Sampled), blocks in blocks(), of in 1u32..=8, is_last_first in any::<bool>()) {
        check(&rows, blocks.as_deref(), of, is_last_first)?;
    }

    #[test]
    fn parts_of_samples_among_other_rows(rows in rows(Rows::Mixed), of in 1u32..=8, is_last_first in any::<bool>()) {
        check(&rows, None, of, is_last_first)?;
    }

    #[test]
    fn the_halves_of_a_part_are_as_good_as_the_part(rows in rows(Rows::Exact)) {
        let options = Options::default();
        let [first, second] = Part::WHOLE.halves().unwrap();
        let quarters = second.halves().unwrap();
        let mut merged = concluded(options, quarters[1], &rows, None);
        [first, quarters[0]].into_iter().for_each(|part| merged.merge(concluded(options, part, &rows, None)).unwrap());
        prop_assert_eq!(said(&merged.finish().unwrap()), said(&support::analyse(options, None, &rows)));
    }
}

/// More rows than wait in a shard before it is worked off, so that parts work theirs off at other times than the whole; steps
/// begin at the times of rows.
#[test]
fn rows_that_waited_see_the_steps_that_the_whole_sees() {
    let rows: Vec<TraceRow<'_>> = (0..60_000u64)
        .map(|row| TraceRow {
            timestamp_ns: row / 40 * 1_000,
            address: 0x7f00_0000_0000 + row * 7_919 % 12_000 * 512,
            size_bytes: 8,
            op_type: if row % 3 == 0 { OpType::Store } else { OpType::Load },
            region_type: RegionType::ALL[(row * 31 % 5) as usize],
            region_id: (row * 31 % 5) as u32,
            step: Some((row / 100) as u32),
            period: 2 + row % 7,
            ..ROW
        })
        .collect();
    for options in all_options() {
        let whole = pushed(Analyser::new(options), &rows, None).finish();
        let mut parts = Part::all(3).map(|part| concluded(options, part, &rows, None));
        let mut merged = parts.next().unwrap();
        parts.for_each(|part| merged.merge(part).unwrap());
        assert_eq!(said(&merged.finish().unwrap()), said(&whole), "{options:?}");
    }
}

#[test]
fn parts_that_are_not_of_one_analysis_are_refused() {
    let part = |number| Part::new(number, 2).unwrap();
    let rows = [support::store(10, 0x1000, 8), support::load(20, 0x1000, 8)];
    let [dwell, theirs] =
        [Definitions::Dwell, Definitions::MrmTrace].map(|definitions| Options { definitions, ..Options::default() });
    let unlike = |difference| AnalysisError::UnlikeParts { difference };
    let mut first = concluded(dwell, part(1), &rows, None);
    assert_eq!(first.merge(concluded(theirs, part(2), &rows, None)), Err(unlike("their options")));
    assert_eq!(first.merge(concluded(dwell, part(2), &rows[..1], None)), Err(unlike("the rows of the trace")));
    let with_blocks = concluded(dwell, part(2), &rows, Some(&[BLOCK]));
    assert_eq!(first.merge(with_blocks), Err(unlike("the rows of the trace")));
    assert_eq!(first.clone().finish(), Err(AnalysisError::NotWhole { parts: 1 }));
    first.merge(concluded(dwell, part(1), &rows, None)).unwrap();
    assert_eq!(first.finish(), Err(AnalysisError::NotWhole { parts: 2 }));
}

/// Bytes that no analysis wrote, made from some that one did.
fn damaged(bytes: &[u8], changes: &[(usize, u8)], length: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for &(place, value) in changes {
        let place = place % bytes.len();
        bytes[place] = value;
    }
    bytes.truncate(length % (bytes.len() + 1));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_make_reading_merging_or_reporting_panic(
        rows in rows(Rows::Mixed),
        blocks in blocks(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        length in any::<usize>(),
        is_cut in prop::bool::weighted(0.1),
        is_theirs in any::<bool>(),
        is_second in any::<bool>(),
    ) {
        let definitions = if is_theirs { Definitions::MrmTrace } else { Definitions::Dwell };
        let options = Options { definitions, ..Options::default() };
        let mut parts: Vec<ConcludedPart> =
            Part::all(2).map(|part| concluded(options, part, &rows, blocks.as_deref())).collect();
        let mut sound = parts.remove(usize::from(is_second));
        let bytes = parts[0].to_bytes().unwrap();
        let length = if is_cut { length } else { bytes.len() };
        if let Ok(part) = ConcludedPart::from_bytes(&damaged(&bytes, &changes, length)) {
            // Refused or reported on, whatever its numbers say.
            let _ = sound.merge(part).map(|()| sound.finish());
        }
    }

    #[test]
    fn any_bytes_at_all_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(ConcludedPart::from_bytes(&bytes).is_err());
    }
}
