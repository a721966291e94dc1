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
use super::thresholds::{THRESHOLDS_PT, Threshold, draw_thresholds, thresholds};
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

impl Life<'_> {
    /// Whether even the longest lives are shorter than what can be told apart.
    fn is_below(&self, floor_s: f64) -> bool {
        matches!(self.p99, Quantile::Value(time_s) if time_s < floor_s)
    }
}

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let speed = run.thresholds.at_tokens_per_s.filter(|_| run.has_metric("needed_p99_s"));
    let mut lives: Vec<Life<'_>> = run.regions.iter().filter_map(|region| life(run, region, speed.is_some())).collect();
    lives.sort_by_key(|life| region_rank(life.region_type));
    drawing(&lives, &thresholds(run), speed, size)
}

fn drawing(lives: &[Life<'_>], marks: &[Threshold], speed: Option<f64>, size: FigureSize) -> Option<Drawing> {
    let quantiles = || lives.iter().flat_map(|life| life.p50.into_iter().chain([life.p99]));
    let times =
        || quantiles().map(Quantile::time_s).chain(marks.iter().map(|mark| mark.least_s)).filter(|time| *time > 0.0);
    if lives.is_empty() {
        return None;
    }
    // Shorter times than a step cannot be told apart.
    let floor_s = speed.map_or_else(|| times().fold(f64::INFINITY, f64::min), |speed| 1.0 / speed);
    let (least_s, most_s) = (times().fold(floor_s, f64::min) / 3.0, times().fold(floor_s, f64::max) * 4.0);
    let height_mm = AROUND_MM + ROW_MM * lives.len() as f64;
    let mut scene = size.scene(height_mm, height_mm);
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(lives, floor_s));
    let title = speed.map_or_else(
        || "Required retention (s)".to_owned(),
        |speed| format!("Required retention at {} tokens/s (s)", numbers::three_digits(speed).trim_end_matches(".0")),
    );
    let x = Axis::decades(&title, least_s, most_s, 7);
    let names: Vec<String> = lives.iter().map(|life| region_title(life.region_type).to_owned()).collect();
    let rows = Rows::open(&mut scene, area, &x, &names, THRESHOLDS_PT);
    draw_thresholds(&mut scene, &rows.plot, marks);
    for (place, life) in lives.iter().enumerate() {
        draw_life(&mut scene, &rows, place, life, floor_s);
    }
    Some(Drawing { scene, table: table(lives, floor_s) })
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

/// What is drawn of all that can be.
fn entries(lives: &[Life<'_>], floor_s: f64) -> Vec<Entry> {
    let has = |is: &dyn Fn(&Life<'_>) -> bool| lives.iter().any(is);
    let is_value = |quantile: Quantile| matches!(quantile, Quantile::Value(_));
    let known = [
        (
            has(&|life| !life.is_below(floor_s) && life.p50.is_some_and(is_value)),
            "median",
            Sample::Mark(Marker::Circle, INK),
        ),
        (
            has(&|life| !life.is_below(floor_s) && is_value(life.p99)),
            "99th percentile",
            Sample::Mark(Marker::Diamond, INK),
        ),
        (has(&|life| !is_value(life.p99)), "at least: the trace ended first", Sample::AtLeast),
        (has(&|life| life.is_below(floor_s)), "too short to tell", Sample::Less),
    ];
    known.into_iter().filter(|(is_drawn, ..)| *is_drawn).map(|(_, title, sample)| Entry::new(title, sample)).collect()
}

/// From the median to the 99th percentile. A bound that was not reached is an arrow to the right; what is too short to be
/// told is one to the left.
fn draw_life(scene: &mut Scene, rows: &Rows, place: usize, life: &Life<'_>, floor_s: f64) {
    let Rect { left, right, .. } = rows.plot.area;
    let y = rows.middle(place);
    let stroke = Stroke { dashes_pt: &[], ..region_stroke(life.region_type) };
    if life.is_below(floor_s) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::super::chart::palette::region_colour;
    use super::super::scene::{Segment, Shape};
    use super::*;

    /// Marks of values in the colour of a region type, and lines in it by their number of points.
    fn drawn(scene: &Scene, region_type: &str) -> (usize, Vec<usize>) {
        let colour = region_colour(region_type);
        let paths = scene.shapes().iter().filter_map(|shape| match shape {
            Shape::Path { outline, fill, stroke } => Some((outline, *fill, *stroke)),
            _ => None,
        });
        let marks = paths.clone().filter(|(_, fill, _)| *fill == Some(colour)).count();
        let lines = paths.filter(|(_, _, stroke)| stroke.is_some_and(|stroke| stroke.colour == colour));
        (marks, lines.map(|(outline, ..)| outline.len()).collect())
    }

    #[test]
    fn a_bound_that_was_not_reached_is_an_arrow_and_never_a_value() {
        let lives = [
            Life { region_type: "weight", p50: Some(Quantile::AtLeast(4.0)), p99: Quantile::AtLeast(4.0) },
            Life { region_type: "activation", p50: Some(Quantile::Value(0.2)), p99: Quantile::Value(3.0) },
            Life { region_type: "work_buffer", p50: None, p99: Quantile::Value(0.0) },
        ];
        let mark = Threshold { name: "high (p99)", least_s: 10.0, most_s: 10.0 };
        let drawing = drawing(&lives, &[mark], Some(20.0), FigureSize::Column).unwrap();
        let (marks, lines) = drawn(&drawing.scene, "weight");
        assert_eq!(marks, 0, "no mark of a value");
        assert_eq!(lines, [2, 2, 2, 3], "the bound, its end, a shaft and a head");
        assert_eq!(drawn(&drawing.scene, "activation"), (2, vec![2]), "two values and the line between them");
        assert_eq!(drawn(&drawing.scene, "work_buffer"), (0, vec![2, 3]), "an arrow to the left");
        let head = drawing.scene.shapes().iter().rev().find_map(|shape| match shape {
            Shape::Path { outline, .. } if outline.len() == 3 => Some(outline[1]),
            _ => None,
        });
        assert!(matches!(head, Some(Segment::Line((x, _))) if x < drawing.scene.area().right / 2.0), "{head:?}");
        let rows = "weight,p50,4,at_least\nweight,p99,4,at_least\nactivation,p50,0.2,value\nactivation,p99,3,value\n\
                    work_buffer,p99,0,below_resolution\n";
        assert_eq!(drawing.table.csv(), format!("region_type,quantile,time_s,kind\n{rows}"));
    }
}
