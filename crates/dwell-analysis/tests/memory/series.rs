use dwell_analysis::memory::{MemoryKind, MemorySeries, Series, ValueAt};
use dwell_events::schema::memory::MemoryRow;

use crate::lab::{sample, series_of};

fn series() -> Series {
    let mut series = Series::default();
    [(100, 1_000), (200, 3_000), (300, 3_000)].into_iter().for_each(|(time_ns, bytes)| series.push(time_ns, bytes));
    series
}

#[test]
fn between_samples_memory_is_on_the_line_and_the_gap_is_stated() {
    let found = |time_ns| series().at(time_ns);
    assert_eq!(found(100), Some(ValueAt { bytes: 1_000, gap_ns: 0 }));
    assert_eq!(found(125), Some(ValueAt { bytes: 1_500, gap_ns: 25 }));
    assert_eq!(found(180), Some(ValueAt { bytes: 2_600, gap_ns: 20 }));
    assert_eq!(found(300), Some(ValueAt { bytes: 3_000, gap_ns: 0 }));
}

#[test]
fn outside_the_samples_nothing_is_made_up() {
    assert_eq!([99, 301].map(|time_ns| series().at(time_ns)), [None, None]);
    assert_eq!(Series::default().at(5), None);
    let mut single = Series::default();
    single.push(7, 70);
    assert_eq!(single.at(7), Some(ValueAt { bytes: 70, gap_ns: 0 }));
    assert_eq!([single.at(6), single.at(8)], [None, None]);
}

#[test]
fn samples_that_come_late_find_their_place() {
    let mut series = series();
    series.push(150, 9_000);
    series.push(200, 4_000);
    assert_eq!(series.points(), [(100, 1_000), (150, 9_000), (200, 4_000), (300, 3_000)]);
    assert_eq!(series.peak(), Some((150, 9_000)));
    assert_eq!(series.between(150, 250), [(150, 9_000), (200, 4_000)]);
    assert_eq!(series.between(250, 150), []);
}

#[test]
fn the_largest_numbers_neither_overflow_nor_wrap() {
    let mut series = Series::default();
    series.push(0, u64::MAX);
    series.push(u64::MAX, 0);
    let middle = series.at(u64::MAX / 2).unwrap();
    assert!(middle.bytes.abs_diff(u64::MAX / 2) <= 1, "{middle:?}");
}

#[test]
fn memory_of_its_own_is_what_no_file_stands_behind() {
    let row = MemoryRow { swap_bytes: Some(5), shmem_bytes: Some(7), gpu_bytes: Some(11), ..sample(1, 100, 1_000) };
    let series = series_of([row, MemoryRow { timestamp_ns: 2, rss_bytes: 50, ..MemoryRow::default() }]);
    assert_eq!(series.of(MemoryKind::Own).points(), [(1, 123)]);
    assert_eq!(series.of(MemoryKind::Rss).points(), [(1, 1_100), (2, 50)]);
    let at = series.at(2);
    assert_eq!((at.rss_bytes, at.pss_bytes, at.anon_bytes, at.gap_ns), (Some(50), None, None, Some(0)));
    assert!(MemorySeries::default().is_empty() && !series.is_empty());
}

#[test]
fn pss_between_samples_that_are_far_apart_is_missing() {
    let mut series = MemorySeries::default();
    let row =
        |timestamp_ns, rss_bytes, pss_bytes| MemoryRow { timestamp_ns, rss_bytes, pss_bytes, ..MemoryRow::default() };
    // The process grows at once, between two samples of PSS.
    series.push(&row(0, 10, Some(5)));
    series.push(&row(100, 200, None));
    series.push(&row(200, 200, None));
    series.push(&row(300, 200, Some(190)));
    series.push(&row(400, 200, Some(190)));
    assert_eq!((series.at(150).rss_bytes, series.at(150).pss_bytes), (Some(200), None));
    assert_eq!(series.at(350).pss_bytes, Some(190));
    assert_eq!(series.at(300).pss_bytes, Some(190));
}
