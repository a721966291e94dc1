//! Takes the rows of a trace and gives the picture.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use dwell_events::{OpType, RegionType};

use super::operations::{Operations, SymbolIndex};
use super::places::{OverviewRegion, Places};
use super::time_bins::{BinnedBytes, TimeCut};
use super::{OVERVIEW_FORMAT, Overview, Place, Tiles, Traffic, TrafficSeries, WorkingSetSeries, WorkingSetSteps};
use crate::AnalysisError;
use crate::columns::texts;
use crate::reader::{NEEDED_COLUMNS, TraceBatch};
use crate::region_type::{KNOWN_TYPES, RegionTypeNames, known_index};

/// Bins of a place at most.
const MAP_BINS: u64 = 256;

/// Bins of a region type at most.
const TRAFFIC_BINS: u64 = 2048;

/// Cells of the map that are written at most. In the worst case a cell is 50 bytes of text.
const MOST_CELLS: usize = 50_000;

/// Points of a working set at most.
const MOST_STEP_POINTS: usize = 2048;

/// Takes the rows of a trace, in any order, and gives an [`Overview`].
pub struct OverviewBuilder {
    places: Places,
    map_cut: TimeCut,
    /// By number of the place.
    map: Vec<BinnedBytes>,
    traffic_cut: TimeCut,
    /// By place in [`RegionType::ALL`].
    traffic: Vec<BinnedBytes>,
    operations: Operations,
    window: Option<(u64, u64)>,
    rows: u64,
}

impl OverviewBuilder {
    /// Columns of `trace` that are used beside those that every analysis needs.
    pub(crate) const COLUMNS: [&str; 2] = ["size_bytes", "symbol"];

    /// Knows the regions of a trace by their ids; those of other ids get places without a name.
    pub fn new(regions: BTreeMap<u64, OverviewRegion>) -> Self {
        Self {
            places: Places::new(regions),
            map_cut: TimeCut::new(MAP_BINS),
            map: Vec::new(),
            traffic_cut: TimeCut::new(TRAFFIC_BINS),
            traffic: vec![BinnedBytes::default(); KNOWN_TYPES],
            operations: Operations::default(),
            window: None,
            rows: 0,
        }
    }

    /// Columns of `trace` that a picture without metrics is drawn from.
    pub fn columns() -> Vec<&'static str> {
        [&NEEDED_COLUMNS[..], &Self::COLUMNS].concat()
    }

    /// Takes rows of `trace` that no analyser reads.
    pub fn push_rows(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        // The types of a batch are numbered in the order in which all builders know them.
        let rows = TraceBatch::new(batch, &mut RegionTypeNames::new())?;
        self.push(batch, &rows);
        Ok(())
    }

    /// The picture of rows that no analyser read: without what the metrics know of them.
    pub fn finish_rows(self) -> Overview {
        self.finish(&[])
    }

    /// Takes rows of `trace`.
    pub(crate) fn push(&mut self, columns: &RecordBatch, batch: &TraceBatch) {
        let operations = &mut self.operations;
        // A column of that name that is no text comes from elsewhere, and names no operation.
        let symbols: Option<Vec<SymbolIndex>> = columns
            .column_by_name("symbol")
            .and_then(|array| texts(array, "symbol", |symbol| operations.intern(symbol)).ok());
        self.cover(batch.timestamps_ns());
        for row in 0..batch.rows() {
            let access = batch.access(row);
            let direction = usize::from(access.op_type == OpType::Store);
            let place = self.places.of(access.region_id, access.region_type);
            if place >= self.map.len() {
                self.map.resize_with(place + 1, BinnedBytes::default);
            }
            self.places.count_row(place);
            self.map[place].add(self.map_cut.bin(access.timestamp_ns), direction, access.size_bytes);
            let traffic = &mut self.traffic[known_index(access.region_type)];
            traffic.add(self.traffic_cut.bin(access.timestamp_ns), direction, access.size_bytes);
            let symbol = symbols.as_ref().map_or(0, |symbols| symbols[row]);
            self.operations.add(symbol, direction, access.size_bytes);
        }
        self.rows += batch.rows() as u64;
    }

    /// Makes room for times.
    fn cover(&mut self, timestamps_ns: &[u64]) {
        let (Some(&first_ns), Some(&last_ns)) = (timestamps_ns.iter().min(), timestamps_ns.iter().max()) else {
            return;
        };
        let window = self.window.get_or_insert((first_ns, last_ns));
        *window = (window.0.min(first_ns), window.1.max(last_ns));
        for now_ns in [first_ns, last_ns] {
            let (map_shifts, traffic_shifts) = (self.map_cut.cover(now_ns), self.traffic_cut.cover(now_ns));
            self.map.iter_mut().for_each(|place| place.coarsen(map_shifts));
            self.traffic.iter_mut().for_each(|series| series.coarsen(traffic_shifts));
        }
    }

    /// The picture of all rows that were pushed, with the bytes that each step touched, by place in [`RegionType::ALL`].
    pub(crate) fn finish(mut self, step_bytes: &[[u64; KNOWN_TYPES]]) -> Overview {
        self.fit_cells();
        let (first_ns, last_ns) = self.window.unwrap_or_default();
        let (places, tiles) = placed(self.places, &self.map, &self.map_cut);
        Overview {
            format: OVERVIEW_FORMAT,
            first_ns,
            last_ns,
            rows: self.rows,
            places,
            tiles,
            traffic: traffic(&self.traffic, &self.traffic_cut),
            operations: self.operations.into_listed(),
            working_set: working_set(step_bytes),
            ..Overview::default()
        }
    }

    fn fit_cells(&mut self) {
        let cells = |map: &[BinnedBytes]| map.iter().map(|place| place.cells().count()).sum::<usize>();
        while cells(&self.map) > MOST_CELLS {
            self.map_cut.coarser();
            self.map.iter_mut().for_each(|place| place.coarsen(1));
        }
    }
}

fn placed(places: Places, map: &[BinnedBytes], cut: &TimeCut) -> (Vec<Place>, Tiles) {
    let mut tiles = Tiles { axis: cut.axis(), ..Tiles::default() };
    let first_bin = cut.bin(tiles.axis.first_bin_ns);
    let mut ordered = Vec::new();
    for (index, (number, place)) in places.into_ordered().into_iter().enumerate() {
        let bytes = map.get(number).map_or([0; 2], BinnedBytes::sum);
        ordered.push(Place { read_bytes: bytes[0], written_bytes: bytes[1], ..place });
        for (bin, bytes) in map.get(number).into_iter().flat_map(BinnedBytes::cells) {
            tiles.place.push(index as u32);
            tiles.bin.push((bin - first_bin) as u32);
            tiles.read_bytes.push(bytes[0]);
            tiles.written_bytes.push(bytes[1]);
        }
    }
    (ordered, tiles)
}

fn traffic(binned: &[BinnedBytes], cut: &TimeCut) -> Traffic {
    let axis = cut.axis();
    let first_bin = cut.bin(axis.first_bin_ns);
    let series = binned.iter().zip(RegionType::ALL).filter(|(binned, _)| binned.sum() != [0; 2]);
    let series = series.map(|(binned, region_type)| {
        let mut bytes = [vec![0; axis.bins as usize], vec![0; axis.bins as usize]];
        for (bin, cell) in binned.cells() {
            let place = (bin - first_bin) as usize;
            (bytes[0][place], bytes[1][place]) = (cell[0], cell[1]);
        }
        let [read_bytes, written_bytes] = bytes;
        TrafficSeries { region_type: region_type.name().to_owned(), read_bytes, written_bytes }
    });
    Traffic { axis, series: series.collect() }
}

fn working_set(step_bytes: &[[u64; KNOWN_TYPES]]) -> WorkingSetSteps {
    let steps_per_point = step_bytes.len().div_ceil(MOST_STEP_POINTS).max(1);
    let of_type = |type_index: usize| -> Vec<u64> {
        let largest = |steps: &[[u64; KNOWN_TYPES]]| steps.iter().map(|step| step[type_index]).max().unwrap_or(0);
        step_bytes.chunks(steps_per_point).map(largest).collect()
    };
    let series = RegionType::ALL.iter().enumerate().filter_map(|(type_index, region_type)| {
        let bytes = of_type(type_index);
        let is_touched = bytes.iter().any(|&bytes| bytes > 0);
        is_touched.then(|| WorkingSetSeries { region_type: region_type.name().to_owned(), bytes })
    });
    WorkingSetSteps { steps_per_point: u32::try_from(steps_per_point).unwrap_or(u32::MAX), series: series.collect() }
}
