//! `retention`: how long data must be kept, by region type, against the classes.

use super::chart::axis::Axis;
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mark::{Marker, arrow};
use super::chart::palette::{INK, region_rank, region_stroke};
use super::chart::plot::drawable;
use super::chart::rows::Rows;
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::scene::{Rect, Scene, Stroke};
use super::size::FigureSize;
use super::table::Table;
use super::thresholds::{THRESHOLDS_PT, draw_thresholds, thresholds};
use crate::numbers;
use crate::page::{RegionRow, RunPage, region_title};

pub(super) const RETENTION: FigureKind = FigureKind {
    name: "retention",
    shows: "Required retention by region type, median and 99th percentile, against the classes; a bound is an arrow, never a value.",
    needs: "figures of retention",
    draw: Draw::Run(draw),
};

const ROW_MM: f64 = 6.0;
const AROUND_MM: f64 = 20.0;
const RADIUS_PT: f64 = 2.4;

/// A quantile: the value, or a time that it is longer than.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantile {
    Value(f64),
    AtLeast(f64),
}

impl Quantile {
    fn of(value: Option<f64>, low: Option<f64>) -> Option<Self> {
        value.map(Self::Value).or(low.map(Self::AtLeast))
    }

    fn time_s(self) -> f64 {
        match self {
            Self::Value(time_s) | Self::AtLeast(time_s) => time_s,
        }
    }
}

/// The quantiles of a region type.
struct Life<'a> {
    region_type: &'a str,
    p50: Option<Quantile>,
    p99: Quantile,
}

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let speed = run.thresholds.at_tokens_per_s.filter(|_| run.has_metric("needed_p99_s"));
    let mut lives: Vec<Life<'_>> = run.regions.iter().filter_map(|region| life(run, region, speed.is_some())).collect();
    lives.sort_by_key(|life| region_rank(life.region_type));
    let marks = thresholds(run);
    let quantiles = || lives.iter().flat_map(|life| life.p50.into_iter().chain([life.p99]));
    let times = || quantiles().map(Quantile::time_s).chain(marks.iter().map(|mark| mark.least_s)).filter(|time| *time > 0.0);
    if lives.is_empty() {
        return None;
    }
    // Shorter times than a step cannot be told apart.
    let floor_s = speed.map_or_else(|| times().fold(f64::INFINITY, f64::min), |speed| 1.0 / speed);
    let (least_s, most_s) = (times().fold(floor_s, f64::min) / 3.0, times().fold(floor_s, f64::max) * 4.0);
    let height_mm = AROUND_MM + ROW_MM * lives.len() as f64;
    let mut scene = size.scene(height_mm, height_mm);
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(quantiles().any(|quantile| matches!(quantile, Quantile::AtLeast(_)))));
    let title = speed.map_or_else(
        || "Required retention (s)".to_owned(),
        |speed| format!("Required retention at {} tokens/s (s)", numbers::three_digits(speed).trim_end_matches(".0")),
    );
    let x = Axis::decades(&title, least_s, most_s, 7);
    let names: Vec<String> = lives.iter().map(|life| region_title(life.region_type).to_owned()).collect();
    let rows = Rows::open(&mut scene, area, &x, &names, THRESHOLDS_PT);
    draw_thresholds(&mut scene, &rows.plot, &marks);
    for (place, life) in lives.iter().enumerate() {
        draw_life(&mut scene, &rows, place, life, floor_s);
    }
    Some(Drawing { scene, table: table(&lives, floor_s) })
}

fn life<'a>(run: &RunPage, region: &'a RegionRow, is_at_speed: bool) -> Option<Life<'a>> {
    let time = |column| run.metric(&region.region_type, column);
    let (p50, p99) = if is_at_speed {
        let p50 = Quantile::of(time("needed_p50_s"), time("needed_p50_low_s"));
        (p50, Quantile::of(time("needed_p99_s"), time("needed_p99_low_s")))
    } else {
        let p50 = Quantile::of(region.retention_p50_s, region.retention_p50_low_s);
        (p50, Quantile::of(region.retention_p99_s, region.retention_p99_low_s))
    };
    Some(Life { region_type: &region.region_type, p50, p99: p99? })
}

fn entries(has_bounds: bool) -> Vec<Entry> {
    let mut entries = vec![
        Entry::new("median", Sample::Mark(Marker::Circle, INK)),
        Entry::new("99th percentile", Sample::Mark(Marker::Diamond, INK)),
    ];
    if has_bounds {
        entries.push(Entry::new("at least: the trace ended first", Sample::Arrow));
    }
    entries
}

/// From the median to the 99th percentile. A bound that was not reached is an arrow to the right; what is too short to be
/// told is one to the left.
fn draw_life(scene: &mut Scene, rows: &Rows, place: usize, life: &Life<'_>, floor_s: f64) {
    let Rect { left, right, .. } = rows.plot.area;
    let y = rows.middle(place);
    let stroke = Stroke { dashes_pt: &[], ..region_stroke(life.region_type) };
    if life.p99.time_s() < floor_s && matches!(life.p99, Quantile::Value(_)) {
        return arrow(scene, (rows.plot.x(floor_s), y), (left + 3.0, y), stroke);
    }
    let at = |time_s: f64| (rows.plot.x(time_s.max(floor_s)), y);
    let end = at(life.p99.time_s());
    if let Some(p50) = life.p50 {
        scene.line(&[at(p50.time_s()), end], stroke);
        if let Quantile::Value(time_s) = p50 {
            Marker::Circle.draw(scene, at(time_s), RADIUS_PT, stroke.colour);
        }
    }
    match life.p99 {
        Quantile::Value(_) => Marker::Diamond.draw(scene, end, RADIUS_PT, stroke.colour),
        Quantile::AtLeast(_) => {
            scene.line(&[(end.0, y - 3.0), (end.0, y + 3.0)], stroke);
            arrow(scene, end, ((end.0 + 24.0).min(right - 1.0), y), stroke);
        }
    }
}

fn table(lives: &[Life<'_>], floor_s: f64) -> Table {
    let mut table = Table::new(&["region_type", "quantile", "time_s", "kind"]);
    for life in lives {
        for (name, quantile) in [("p50", life.p50), ("p99", Some(life.p99))] {
            let kind = match quantile {
                Some(Quantile::AtLeast(_)) => "at_least",
                Some(Quantile::Value(time_s)) if time_s < floor_s => "below_resolution",
                Some(Quantile::Value(_)) => "value",
                None => continue,
            };
            table.row([life.region_type.into(), name.into(), quantile.map(Quantile::time_s).into(), kind.into()]);
        }
    }
    table
}
