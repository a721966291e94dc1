//! The picture of a trace loses no byte, whatever the trace.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use dwell_analysis::overview::{Endpoint, Overview, OverviewBuilder, OverviewRegion};
use dwell_analysis::{Analyser, Definitions, Options, RowOrder};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{ROW, S, load, store};

fn batch(rows: &[TraceRow<'_>]) -> RecordBatch {
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    builder.finish_batch()
}

fn drawn(options: Options, regions: BTreeMap<u64, OverviewRegion>, rows: &[TraceRow<'_>]) -> Overview {
    let mut analyser = Analyser::new(options).drawing(OverviewBuilder::new(regions));
    rows.chunks(97).for_each(|rows| analyser.push_trace(&batch(rows)).unwrap());
    analyser.finish_drawn().1.unwrap()
}

/// Bytes loaded and stored, by region type.
type Sums = BTreeMap<String, (u64, u64)>;

fn sums<'a>(parts: impl Iterator<Item = (&'a str, u64, u64)>) -> Sums {
    let mut sums = Sums::new();
    for (name, read, written) in parts {
        let sum = sums.entry(name.to_owned()).or_default();
        *sum = (sum.0 + read, sum.1 + written);
    }
    sums.retain(|_, sum| *sum != (0, 0));
    sums
}

fn sums_of_rows(rows: &[TraceRow<'_>]) -> Sums {
    sums(rows.iter().map(|row| match row.op_type {
        OpType::Load => (row.region_type.name(), row.size_bytes, 0),
        OpType::Store => (row.region_type.name(), 0, row.size_bytes),
    }))
}

fn sums_of_tiles(overview: &Overview) -> Sums {
    let tiles = &overview.tiles;
    sums((0..tiles.place.len()).map(|cell| {
        let place = &overview.places[tiles.place[cell] as usize];
        (place.region_type.as_str(), tiles.read_bytes[cell], tiles.written_bytes[cell])
    }))
}

/// Time since the row before, region, direction and size of a row.
type RowParts = (u64, u32, bool, u64);

fn rows() -> impl Strategy<Value = Vec<TraceRow<'static>>> {
    let pause_ns = prop_oneof![Just(0u64), 1u64..2_000, 1u64..50_000_000, 1u64..20_000_000_000];
    let row = (pause_ns, 0u32..40, any::<bool>(), 0u64..10_000);
    (prop::collection::vec(row, 0..400), any::<bool>(), 0u64..1_000 * S).prop_map(|(rows, is_sorted, begin_ns)| {
        let mut now_ns = begin_ns;
        let mut rows: Vec<TraceRow<'static>> = rows
            .into_iter()
            .map(|(pause_ns, region_id, is_store, size_bytes): RowParts| {
                now_ns += pause_ns;
                TraceRow {
                    timestamp_ns: now_ns,
                    op_type: if is_store { OpType::Store } else { OpType::Load },
                    size_bytes,
                    region_id,
                    region_type: RegionType::ALL[region_id as usize % RegionType::ALL.len()],
                    symbol: ["MUL_MAT", "ADD", "CPY"][region_id as usize % 3],
                    ..ROW
                }
            })
            .collect();
        if !is_sorted {
            rows.reverse();
        }
        rows
    })
}

proptest! {
    #[test]
    fn cells_add_up_to_the_bytes_of_the_trace(rows in rows()) {
        for definitions in Definitions::ALL {
            let options = Options { definitions, row_order: RowOrder::Any, ..Options::default() };
            let overview = drawn(options, BTreeMap::new(), &rows);
            let expected = sums_of_rows(&rows);
            prop_assert_eq!(&sums_of_tiles(&overview), &expected);
            let series = overview.traffic.series.iter();
            let traffic = sums(series.map(|series| {
                (series.region_type.as_str(), series.read_bytes.iter().sum(), series.written_bytes.iter().sum())
            }));
            prop_assert_eq!(&traffic, &expected);
            let places = overview.places.iter();
            prop_assert_eq!(&sums(places.map(|place| (place.region_type.as_str(), place.read_bytes, place.written_bytes))), &expected);
            let operations = overview.operations.iter();
            let all: (u64, u64) = operations.fold((0, 0), |sum, one| (sum.0 + one.read_bytes, sum.1 + one.written_bytes));
            prop_assert_eq!(all, expected.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)));
            prop_assert_eq!(overview.places.iter().map(|place| place.rows).sum::<u64>(), rows.len() as u64);
        }
    }

    #[test]
    fn every_cell_holds_the_rows_of_its_time(rows in rows()) {
        let overview = drawn(Options { row_order: RowOrder::Any, ..Options::default() }, BTreeMap::new(), &rows);
        let tiles = &overview.tiles;
        let binned = |row: &TraceRow<'_>| (row.timestamp_ns - tiles.axis.first_bin_ns) / tiles.axis.bin_ns;
        for bin in 0..u64::from(tiles.axis.bins) {
            let in_bin: Vec<TraceRow<'_>> = rows.iter().filter(|row| binned(row) == bin).copied().collect();
            let cells = (0..tiles.place.len()).filter(|&cell| u64::from(tiles.bin[cell]) == bin).map(|cell| {
                let place = &overview.places[tiles.place[cell] as usize];
                (place.region_type.as_str(), tiles.read_bytes[cell], tiles.written_bytes[cell])
            });
            prop_assert_eq!(sums(cells), sums_of_rows(&in_bin));
        }
        prop_assert!(rows.iter().all(|row| binned(row) < u64::from(tiles.axis.bins)));
    }
}

#[test]
fn places_are_tensors_in_the_order_of_type_layer_and_name() {
    let region = |region_type: RegionType, layer, tensor: &str| OverviewRegion {
        region_type: region_type.name().to_owned(),
        tensor: tensor.to_owned(),
        layer,
        size_bytes: 100,
    };
    let regions = BTreeMap::from([
        (7, region(RegionType::Weight, Some(1), "b")),
        (8, region(RegionType::Weight, Some(0), "c")),
        (9, region(RegionType::Weight, Some(0), "a")),
    ]);
    let of = |region_id, timestamp_ns| TraceRow {
        region_id,
        region_type: RegionType::Weight,
        ..load(timestamp_ns, 0x1000, 10)
    };
    let rows = [of(7, S), of(8, 2 * S), of(9, 3 * S), of(9, 4 * S)];
    let overview = drawn(Options::default(), regions, &rows);
    let places: Vec<_> =
        overview.places.iter().map(|place| (place.layer, place.tensor.as_deref(), place.rows)).collect();
    assert_eq!(places, [(Some(0), Some("a"), 2), (Some(0), Some("c"), 1), (Some(1), Some("b"), 1)]);
    assert_eq!(overview.tiles.read_bytes.iter().sum::<u64>(), 40);
    assert_eq!((overview.first_ns, overview.last_ns, overview.rows), (S, 4 * S, 4));
}

#[test]
fn any_number_of_regions_and_rows_fits() {
    let regions: BTreeMap<u64, OverviewRegion> = (1..20_000u64)
        .map(|id| {
            let region_type = if id % 3 == 0 { RegionType::Weight } else { RegionType::Activation };
            let region = OverviewRegion {
                region_type: region_type.name().to_owned(),
                tensor: format!("t{id}"),
                layer: Some((id % 300) as u16),
                size_bytes: 64,
            };
            (id, region)
        })
        .collect();
    let rows: Vec<TraceRow<'_>> = (0..60_000u64)
        .map(|row| {
            let id = 1 + row % 19_999;
            let region_type = if id % 3 == 0 { RegionType::Weight } else { RegionType::Activation };
            TraceRow { region_id: id as u32, region_type, ..store(row * 7_919_000, 0x1000 + id * 64, 64) }
        })
        .collect();
    let overview = drawn(Options::default(), regions, &rows);
    assert!(overview.places.len() <= 1_100, "{}", overview.places.len());
    assert!(overview.tiles.place.len() <= 50_000);
    assert_eq!(sums_of_tiles(&overview), sums_of_rows(&rows));
    let text = serde_json::to_string(&overview).unwrap();
    assert!(text.len() <= 4_000_000, "{} bytes", text.len());
    assert_eq!(serde_json::from_str::<Overview>(&text).unwrap(), overview);
}

#[test]
fn the_working_set_and_the_curves_are_those_of_the_metrics() {
    let step = |number, row: TraceRow<'static>| TraceRow { step: Some(number), ..row };
    let rows = [
        step(1, store(S, 0x1000, 100)),
        step(1, load(2 * S, 0x1000, 100)),
        step(2, store(3 * S, 0x1000, 40)),
        step(2, load(5 * S, 0x1000, 40)),
        step(3, store(6 * S, 0x1000, 100)),
    ];
    let overview = drawn(Options::default(), BTreeMap::new(), &rows);
    assert_eq!(overview.working_set.steps_per_point, 1);
    assert_eq!(overview.working_set.series[0].bytes, [100, 40, 100]);
    let retention = overview.survival.iter().find(|curve| curve.endpoint == Endpoint::Retention).unwrap();
    // 60 bytes were needed for 1 s, 40 bytes once for 1 s and once for 2 s: of 140 bytes, 40 last longer than 1 s.
    assert_eq!((retention.life_bytes, retention.open_bytes), (140, 0));
    let after_1_s = retention.at_s.iter().rposition(|&at_s| at_s <= 1.5).unwrap();
    assert!((retention.surviving[after_1_s] - 40.0 / 140.0).abs() < 1e-9, "{retention:?}");
    let residency = overview.survival.iter().find(|curve| curve.endpoint == Endpoint::Residency).unwrap();
    assert_eq!((residency.life_bytes, residency.open_bytes), (240, 100));
}
