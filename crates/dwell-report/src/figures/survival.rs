//! `survival`: how long data is needed and how long it is there.

use dwell_analysis::overview::{Endpoint, SurvivalCurve};

use super::chart::axis::Axis;
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mark::Marker;
use super::chart::palette::{region_rank, region_stroke};
use super::chart::plot::{Plot, cells, drawable, opened};
use super::chart::steps::{corners, fill_between};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::scene::{Rect, Scene};
use super::size::FigureSize;
use super::table::Table;
use super::thresholds::{THRESHOLDS_PT, Threshold, draw_thresholds, recorded_thresholds};
use crate::page::{RunPage, region_title};

pub(super) const SURVIVAL: FigureKind = FigureKind {
    name: "survival",
    shows: "Share of bytes that are needed, and that are held, for longer than a time, by region type; rings mark where the trace ended first.",
    needs: "lives of data",
    draw: Draw::Run(draw),
};

const PANELS: [(Endpoint, &str, &str); 2] = [
    (Endpoint::Retention, "Bytes needed for longer", "Time from store to last load (s)"),
    (Endpoint::Residency, "Bytes held for longer", "Time from store to next store (s)"),
];
const GAP_PT: f64 = 8.0;

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let mut curves: Vec<&SurvivalCurve> = run.overview.survival.iter().filter(|curve| !curve.at_s.is_empty()).collect();
    curves.sort_by_key(|curve| region_rank(&curve.region_type));
    let thresholds = recorded_thresholds(run);
    let (least_s, most_s) = span(&curves, &thresholds)?;
    let mut scene = size.scene(98.0, 62.0);
    let area = drawable(&scene);
    let area = legend(&mut scene, area, &entries(&curves));
    let columns = if size.is_wide() { 2 } else { 1 };
    for ((endpoint, title, x_title), cell) in PANELS.into_iter().zip(cells(area, PANELS.len(), columns, GAP_PT)) {
        let x = Axis::decades(x_title, least_s, most_s, 6);
        let y = Axis::percent(title, cell.height() - 40.0);
        let plot = opened(&mut scene, cell, &x, &y, THRESHOLDS_PT);
        if endpoint == Endpoint::Retention {
            draw_thresholds(&mut scene, &plot, &thresholds);
        }
        let shown: Vec<_> = curves.iter().filter(|curve| curve.endpoint == endpoint).collect();
        shown.iter().for_each(|curve| draw_band(&mut scene, &plot, curve));
        shown.iter().for_each(|curve| draw_curve(&mut scene, &plot, curve));
    }
    Some(Drawing { scene, table: table(&curves, &thresholds) })
}

/// From below the shortest life, for which a logarithmic axis has no 0, to beyond the longest.
fn span(curves: &[&SurvivalCurve], thresholds: &[Threshold]) -> Option<(f64, f64)> {
    let times = curves.iter().flat_map(|curve| curve.at_s.iter().copied());
    let times = times.chain(thresholds.iter().map(|threshold| threshold.most_s)).filter(|time_s| *time_s > 0.0);
    let known = times.fold(None, |known: Option<(f64, f64)>, time_s| {
        Some(known.map_or((time_s, time_s), |(least, most)| (least.min(time_s), most.max(time_s))))
    });
    // All lives are shorter than what can be told apart.
    let (least_s, most_s) = if curves.is_empty() { None } else { Some(known.unwrap_or((1e-3, 1.0))) }?;
    Some((least_s / 2.0, most_s * 1.6))
}

fn entries(curves: &[&SurvivalCurve]) -> Vec<Entry> {
    let mut types: Vec<&str> = curves.iter().map(|curve| curve.region_type.as_str()).collect();
    types.dedup();
    let line = |region_type: &str| Entry::new(region_title(region_type), Sample::Line(region_stroke(region_type)));
    let mut entries: Vec<Entry> = types.into_iter().map(line).collect();
    if curves.iter().any(|curve| is_open(curve)) {
        entries.push(Entry::new("trace ended first", Sample::Ring));
    }
    entries
}

/// Whether data was left when the trace ended. A curve that ends at 0 s says of such data only that it lasts longer than
/// nothing.
fn is_open(curve: &SurvivalCurve) -> bool {
    let is_above_zero = |numbers: &[f64]| numbers.last().is_some_and(|number| *number > 0.0);
    curve.open_bytes > 0 && is_above_zero(&curve.surviving) && is_above_zero(&curve.at_s)
}

/// Edges of the steps: every byte lives longer than the left end of the axis.
fn edges(curve: &SurvivalCurve) -> Vec<f64> {
    let mut edges = vec![0.0];
    edges.extend(&curve.at_s);
    edges.extend(curve.at_s.last());
    edges
}

fn values(shares: &[f64]) -> Vec<f64> {
    [1.0].into_iter().chain(shares.iter().copied()).collect()
}

fn draw_band(scene: &mut Scene, plot: &Plot, curve: &SurvivalCurve) {
    let colour = region_stroke(&curve.region_type).colour.tint(0.22);
    let (low, high) = (values(&curve.surviving_low), values(&curve.surviving_high));
    if low != high {
        fill_between(scene, plot, &edges(curve), &low, &high, colour);
    }
}

fn draw_curve(scene: &mut Scene, plot: &Plot, curve: &SurvivalCurve) {
    let stroke = region_stroke(&curve.region_type);
    let line = corners(plot, &edges(curve), &values(&curve.surviving));
    scene.line(&line, stroke);
    if let (true, Some(&end)) = (is_open(curve), line.last()) {
        let Rect { left, .. } = plot.area;
        Marker::Circle.draw_hollow(scene, (end.0.max(left), end.1), 2.0, stroke.colour);
    }
}

fn table(curves: &[&SurvivalCurve], thresholds: &[Threshold]) -> Table {
    let mut table =
        Table::new(&["series", "endpoint", "at_s", "surviving", "surviving_low", "surviving_high", "is_trace_end"]);
    for curve in curves {
        let endpoint = if curve.endpoint == Endpoint::Retention { "retention" } else { "residency" };
        for place in 0..curve.at_s.len() {
            table.row([
                curve.region_type.as_str().into(),
                endpoint.into(),
                curve.at_s[place].into(),
                curve.surviving[place].into(),
                curve.surviving_low[place].into(),
                curve.surviving_high[place].into(),
                (place + 1 == curve.at_s.len() && is_open(curve)).into(),
            ]);
        }
    }
    for threshold in thresholds {
        for time_s in [threshold.least_s, threshold.most_s] {
            let none = || None::<f64>.into();
            let name = format!("threshold {}", threshold.name);
            table.row([name.as_str().into(), "retention".into(), time_s.into(), none(), none(), none(), none()]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_curve_with_data_left_after_some_time_has_a_ring() {
        let curve = |open_bytes, last_s, share| SurvivalCurve {
            region_type: "work_buffer".to_owned(),
            endpoint: Endpoint::Retention,
            life_bytes: 40_674_816,
            open_bytes,
            at_s: vec![last_s],
            surviving: vec![share],
            surviving_low: vec![share],
            surviving_high: vec![share],
        };
        let has_ring = |curve: SurvivalCurve| {
            let is_ringed = entries(&[&curve]).iter().any(|entry| entry.sample == Sample::Ring);
            assert_eq!(table(&[&curve], &[]).csv().ends_with(",true\n"), is_ringed, "the table says the same");
            is_ringed
        };
        assert!(has_ring(curve(38_016, 7.5, 0.000_9)));
        assert!(!has_ring(curve(38_016, 0.0, 0.000_9)), "open data of which nothing is known");
        assert!(!has_ring(curve(38_016, 7.5, 0.0)), "all of it ended before");
        assert!(!has_ring(curve(0, 7.5, 0.000_9)), "nothing was left");
    }
}
