//! Whether a picture that was read from a file can be drawn: its lists fit each other, whoever wrote them.

use super::{KvMap, OVERVIEW_FORMAT, Overview, Tiles, TimeAxis, Traffic};

/// Bins and rows that are drawn at most: many times as many as are ever written.
const MOST_BINS: u32 = 1 << 16;

impl Overview {
    /// Why it cannot be drawn; none if it can.
    pub fn problem(&self) -> Option<&'static str> {
        if self.format != OVERVIEW_FORMAT {
            return Some("it has another format");
        }
        let tiles = tiles_fit(&self.tiles, self.places.len()).then_some(()).ok_or("its tiles do not fit its places");
        let traffic = traffic_fits(&self.traffic).then_some(()).ok_or("its traffic does not fit its times");
        let survival = self.survival.iter().all(|curve| {
            let points = curve.at_s.len();
            [&curve.surviving, &curve.surviving_low, &curve.surviving_high].iter().all(|list| list.len() == points)
        });
        let survival = survival.then_some(()).ok_or("its survival curves have lists of unequal lengths");
        let kv = self.kv.as_ref().is_none_or(kv_fits).then_some(()).ok_or("its KV map does not fit its rows and times");
        tiles.and(traffic).and(survival).and(kv).err()
    }
}

fn axis_fits(axis: TimeAxis) -> bool {
    let length_ns = u64::from(axis.bins).checked_mul(axis.bin_ns);
    axis.bins <= MOST_BINS && length_ns.and_then(|length_ns| axis.first_bin_ns.checked_add(length_ns)).is_some()
}

fn tiles_fit(tiles: &Tiles, places: usize) -> bool {
    let cells = tiles.place.len();
    axis_fits(tiles.axis)
        && [tiles.bin.len(), tiles.read_bytes.len(), tiles.written_bytes.len()] == [cells; 3]
        && tiles.place.iter().all(|&place| (place as usize) < places)
        && tiles.bin.iter().all(|&bin| bin < tiles.axis.bins)
}

fn traffic_fits(traffic: &Traffic) -> bool {
    let bins = traffic.axis.bins as usize;
    let fits = |list: &Vec<u64>| list.len() == bins;
    axis_fits(traffic.axis)
        && traffic.series.iter().all(|series| fits(&series.read_bytes) && fits(&series.written_bytes))
}

fn kv_fits(kv: &KvMap) -> bool {
    let cells = u64::from(kv.rows) * u64::from(kv.axis.bins);
    axis_fits(kv.axis)
        && kv.rows <= MOST_BINS
        && u64::from(kv.rows).checked_mul(kv.positions_per_row).is_some()
        && kv.layers.iter().all(|layer| {
            [layer.resident_bytes.len(), layer.cell_reads.len()] == [layer.cell.len(); 2]
                && layer.cell.iter().all(|&cell| u64::from(cell) < cells)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::{Place, TrafficSeries};

    fn drawn() -> Overview {
        let axis = TimeAxis { first_bin_ns: 0, bin_ns: 1024, bins: 4 };
        let place = Place {
            region_type: "weight".to_owned(),
            layer: None,
            tensor: None,
            regions: 1,
            size_bytes: 8,
            read_bytes: 8,
            written_bytes: 0,
            rows: 1,
        };
        let series =
            TrafficSeries { region_type: "weight".to_owned(), read_bytes: vec![8, 0, 0, 0], written_bytes: vec![0; 4] };
        Overview {
            format: OVERVIEW_FORMAT,
            places: vec![place],
            tiles: Tiles { axis, place: vec![0], bin: vec![3], read_bytes: vec![8], written_bytes: vec![0] },
            traffic: Traffic { axis, series: vec![series] },
            ..Overview::default()
        }
    }

    #[test]
    fn positions_that_cannot_be_counted_are_refused() {
        let axis = TimeAxis { first_bin_ns: 0, bin_ns: 1024, bins: 4 };
        let of = |positions_per_row| Overview {
            kv: Some(KvMap { axis, positions_per_row, rows: 3, layers: Vec::new() }),
            ..drawn()
        };
        assert_eq!((of(1).problem(), of(u64::MAX).problem().is_some()), (None, true));
    }

    #[test]
    fn what_was_drawn_fits_and_what_was_changed_does_not() {
        assert_eq!(drawn().problem(), None);
        let changes: [fn(&mut Overview); 7] = [
            |overview| overview.format = 99,
            |overview| overview.tiles.bin = vec![1 << 31],
            |overview| overview.tiles.bin = Vec::new(),
            |overview| overview.tiles.place = vec![1],
            |overview| overview.tiles.axis.bin_ns = u64::MAX,
            |overview| overview.traffic.axis.bins = 1 << 31,
            |overview| overview.traffic.series[0].read_bytes.clear(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = drawn();
            change(&mut changed);
            assert!(changed.problem().is_some(), "change {number}");
        }
    }
}
