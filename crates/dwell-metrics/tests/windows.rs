//! Any part of any trace is drawn with the bytes of its rows, no more and no fewer.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use dwell_metrics::draw_window;
use dwell_store::{RunDir, TableWriter, open_table_window};
use proptest::prelude::*;

/// Time, region type, whether it is a store, and bytes.
type Row = (u64, usize, bool, u64);

fn run_of(folder: &std::path::Path, rows: &[Row]) -> RunDir {
    let run = RunDir::create(folder, "model", "run").unwrap();
    let mut builder = TraceBuilder::new("run");
    for &(timestamp_ns, region, is_store, size_bytes) in rows {
        builder.push(&TraceRow {
            timestamp_ns,
            address: 4096 * region as u64,
            size_bytes,
            op_type: if is_store { OpType::Store } else { OpType::Load },
            region_type: RegionType::ALL[region],
            region_id: region as u32 + 1,
            period: 1,
            ..TraceRow::EMPTY
        });
    }
    let mut table = TableWriter::create(run.path(), Table::Trace).unwrap();
    table.write(&builder.finish_batch()).unwrap();
    table.finish().unwrap();
    run
}

/// Bytes loaded and stored, by region type.
type Bytes = BTreeMap<String, [u64; 2]>;

fn bytes_of(rows: impl Iterator<Item = Row>) -> Bytes {
    let mut bytes = Bytes::new();
    for (_, region, is_store, size_bytes) in rows {
        bytes.entry(RegionType::ALL[region].name().to_owned()).or_default()[usize::from(is_store)] += size_bytes;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_window_has_the_rows_of_its_time(
        rows in prop::collection::vec((0..1_u64 << 40, 0..4_usize, any::<bool>(), 1..1_u64 << 30), 1..300),
        cuts in prop::array::uniform2(0..1_u64 << 40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let run = run_of(folder.path(), &rows);
        let window = cuts[0].min(cuts[1])..cuts[0].max(cuts[1]);
        let within: Vec<Row> = rows.iter().copied().filter(|row| window.contains(&row.0)).collect();
        let overview = draw_window(&run, window.clone(), u64::MAX).unwrap().overview.unwrap();
        let tiles = &overview.tiles;
        let mut drawn = Bytes::new();
        for (cell, &place) in tiles.place.iter().enumerate() {
            let sum = drawn.entry(overview.places[place as usize].region_type.clone()).or_default();
            sum[0] += tiles.read_bytes[cell];
            sum[1] += tiles.written_bytes[cell];
        }
        prop_assert_eq!(&drawn, &bytes_of(within.iter().copied()));
        let traffic = overview.traffic.series.iter().map(|series| {
            let sum = |bytes: &[u64]| bytes.iter().sum::<u64>();
            (series.region_type.clone(), [sum(&series.read_bytes), sum(&series.written_bytes)])
        });
        prop_assert_eq!(traffic.collect::<Bytes>(), drawn);
        prop_assert_eq!(overview.rows, within.len() as u64);
        let read = open_table_window(run.path(), Table::Trace, &["timestamp_ns", "size_bytes"], Some(window)).unwrap();
        let single: Vec<(u64, u64)> = read
            .flat_map(|batch| {
                let batch = batch.unwrap();
                let column = |name| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values().to_vec();
                column("timestamp_ns").into_iter().zip(column("size_bytes")).collect::<Vec<_>>()
            })
            .collect();
        prop_assert_eq!(single, within.iter().map(|row| (row.0, row.3)).collect::<Vec<_>>());
    }

    #[test]
    fn a_window_with_more_rows_than_allowed_is_not_drawn(rows in 2..500_u64) {
        let folder = tempfile::tempdir().unwrap();
        let run = run_of(folder.path(), &(0..rows).map(|row| (row, 0, false, 1)).collect::<Vec<Row>>());
        let drawn = draw_window(&run, 0..rows, rows - 1).unwrap();
        prop_assert_eq!((drawn.rows_at_most, drawn.overview.is_none()), (rows, true));
        prop_assert!(draw_window(&run, 0..rows, rows).unwrap().overview.is_some());
    }
}
