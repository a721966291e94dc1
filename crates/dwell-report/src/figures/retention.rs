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
const ARROW_PT: f64 = 24.0;

/// A quantile: the value, or a time that it is longer or shorter than.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantile {
    Value(f64),
    AtLeast(f64),
    Below(f64),
}

impl Quantile {
    /// A lower bound of 0 says nothing.
    fn of(value: Option<f64>, low: Option<f64>) -> Option<Self> {
        value.map(Self::Value).or(low.filter(|low_s| *low_s > 0.0).map(Self::AtLeast))
    }

    /// The same, where times below the floor cannot be told apart: such a value is an upper bound.
    fn above(self, floor_s: f64) -> Self {
        match self {
            Self::Value(time_s) if time_s < floor_s => Self::Below(floor_s),
            other => other,
        }
    }

    fn time_s(self) -> f64 {
        match self {
            Self::Value(time_s) | Self::AtLeast(time_s) | Self::Below(time_s) => time_s,
        }
    }

    /// As the table has it.
    fn kind(self) -> &'static str {
        match self {
            Self::Value(_) => "value",
            Self::AtLeast(_) => "at_least",
            Self::Below(_) => "below",
        }
    }
}

/// The quantiles of a region type; one of them is known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Life<'a> {
    region_type: &'a str,
    p50: Option<Quantile>,
    p99: Option<Quantile>,
}

impl Life<'_> {
    fn quantiles(&self) -> impl Iterator<Item = Quantile> {
        self.p50.into_iter().chain(self.p99)
    }
}

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let speed = run.thresholds.at_tokens_per_s.filter(|_| run.has_metric("needed_p99_s"));
    let mut lives: Vec<Life<'_>> = run.regions.iter().filter_map(|region| life(run, region, speed.is_some())).collect();
    lives.sort_by_key(|life| region_rank(life.region_type));
    drawing(&lives, &thresholds(run), speed, size)
}

fn drawing(lives: &[Life<'_>], marks: &[Threshold], speed: Option<f64>, size: FigureSize) -> Option<Drawing> {
    let times = || {
        let quantiles = lives.iter().flat_map(Life::quantiles).map(Quantile::time_s);
        quantiles.chain(marks.iter().map(|mark| mark.least_s)).filter(|time| *time > 0.0)
    };
    if lives.is_empty() {
        return None;
    }
    // Shorter times than a step cannot be told apart.
    let floor_s = speed.map_or_else(|| times().fold(f64::INFINITY, f64::min), |speed| 1.0 / speed);
    let (least_s, most_s) = (times().fold(floor_s, f64::min) / 3.0, times().fold(floor_s, f64::max) * 4.0);
    let above = |quantile: Option<Quantile>| quantile.map(|quantile| quantile.above(floor_s));
    let lives: Vec<Life<'_>> =
        lives.iter().map(|life| Life { p50: above(life.p50), p99: above(life.p99), ..*life }).collect();
    let height_mm = AROUND_MM + ROW_MM * lives.len() as f64;
    let mut scene = size.scene(height_mm, height_mm);
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(&lives, speed.is_some()));
    let title = speed.map_or_else(
        || "Required retention (s)".to_owned(),
        |speed| format!("Required retention at {} tokens/s (s)", numbers::three_digits(speed).trim_end_matches(".0")),
    );
    let x = Axis::decades(&title, least_s, most_s, 7);
    let names: Vec<String> = lives.iter().map(|life| region_title(life.region_type).to_owned()).collect();
    let rows = Rows::open(&mut scene, area, &x, &names, THRESHOLDS_PT);
    draw_thresholds(&mut scene, &rows.plot, marks);
    for (place, life) in lives.iter().enumerate() {
        draw_life(&mut scene, &rows, place, life);
    }
    Some(Drawing { scene, table: table(&lives) })
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
    p50.or(p99)?;
    Some(Life { region_type: &region.region_type, p50, p99 })
}

/// What is drawn of all that can be.
fn entries(lives: &[Life<'_>], is_in_steps: bool) -> Vec<Entry> {
    let has = |is: fn(Quantile) -> bool| lives.iter().flat_map(Life::quantiles).any(is);
    let is_value = |quantile: Option<Quantile>| matches!(quantile, Some(Quantile::Value(_)));
    let below = if is_in_steps { "below one step" } else { "shorter than the axis" };
    let known = [
        (lives.iter().any(|life| is_value(life.p50)), "median", Sample::Mark(Marker::Circle, INK)),
        (lives.iter().any(|life| is_value(life.p99)), "99th percentile", Sample::Mark(Marker::Diamond, INK)),
        (has(|quantile| matches!(quantile, Quantile::AtLeast(_))), "at least: the trace ended first", Sample::AtLeast),
        (has(|quantile| matches!(quantile, Quantile::Below(_))), below, Sample::Less),
    ];
    known.into_iter().filter(|(is_drawn, ..)| *is_drawn).map(|(_, title, sample)| Entry::new(title, sample)).collect()
}

/// From the median to the 99th percentile. A lower bound is an arrow to the right, an upper bound one to the left.
fn draw_life(scene: &mut Scene, rows: &Rows, place: usize, life: &Life<'_>) {
    let Rect { left, right, .. } = rows.plot.area;
    let y = rows.middle(place);
    let stroke = Stroke { dashes_pt: &[], ..region_stroke(life.region_type) };
    let at = |quantile: Quantile| (rows.plot.x(quantile.time_s()), y);
    if let (Some(p50), Some(p99)) = (life.p50, life.p99)
        && at(p50) != at(p99)
    {
        scene.line(&[at(p50), at(p99)], stroke);
    }
    // Bounds that are the same are one arrow.
    let p50 = life.p50.filter(|p50| matches!(p50, Quantile::Value(_)) || life.p99 != Some(*p50));
    for (quantile, marker) in [(p50, Marker::Circle), (life.p99, Marker::Diamond)] {
        let Some(quantile) = quantile else { continue };
        let (x, y) = at(quantile);
        let to = match quantile {
            Quantile::Value(_) => {
                marker.draw(scene, (x, y), RADIUS_PT, stroke.colour);
                continue;
            }
            Quantile::AtLeast(_) => (x + ARROW_PT).min(right - 1.0),
            Quantile::Below(_) => (x - ARROW_PT).max(left + 1.0),
        };
        scene.line(&[(x, y - 3.0), (x, y + 3.0)], stroke);
        arrow(scene, (x, y), (to, y), stroke);
    }
}

/// What is drawn: a bound with the time that it bounds at.
fn table(lives: &[Life<'_>]) -> Table {
    let mut table = Table::new(&["region_type", "quantile", "time_s", "kind"]);
    for life in lives {
        for (name, quantile) in [("p50", life.p50), ("p99", life.p99)] {
            let Some(quantile) = quantile else { continue };
            table.row([life.region_type.into(), name.into(), quantile.time_s().into(), quantile.kind().into()]);
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
    fn a_bound_is_an_arrow_and_never_a_value() {
        let lives = [
            Life { region_type: "weight", p50: Some(Quantile::AtLeast(4.0)), p99: Some(Quantile::AtLeast(4.0)) },
            Life { region_type: "activation", p50: Some(Quantile::Value(0.2)), p99: Some(Quantile::Value(3.0)) },
            Life { region_type: "work_buffer", p50: None, p99: Some(Quantile::Value(0.0)) },
            Life { region_type: "kv_cache", p50: Some(Quantile::Value(0.0)), p99: Some(Quantile::Value(2.0)) },
        ];
        let mark = Threshold { name: "high (p99)", least_s: 10.0, most_s: 10.0 };
        let drawing = drawing(&lives, &[mark], Some(20.0), FigureSize::Column).unwrap();
        assert_eq!(drawn(&drawing.scene, "weight"), (0, vec![2, 2, 3]), "the bound, a shaft and a head, and no value");
        assert_eq!(drawn(&drawing.scene, "activation"), (2, vec![2]), "two values and the line between them");
        assert_eq!(drawn(&drawing.scene, "work_buffer"), (0, vec![2, 2, 3]), "an arrow to the left");
        assert_eq!(drawn(&drawing.scene, "kv_cache"), (1, vec![2, 2, 2, 3]), "a median below a step is no dot");
        let head = drawing.scene.shapes().iter().rev().find_map(|shape| match shape {
            Shape::Path { outline, .. } if outline.len() == 3 => Some(outline[1]),
            _ => None,
        });
        assert!(matches!(head, Some(Segment::Line((x, _))) if x < drawing.scene.area().right / 2.0), "{head:?}");
        let rows = "weight,p50,4,at_least\nweight,p99,4,at_least\nactivation,p50,0.2,value\nactivation,p99,3,value\n\
                    work_buffer,p99,0.05,below\nkv_cache,p50,0.05,below\nkv_cache,p99,2,value\n";
        assert_eq!(drawing.table.csv(), format!("region_type,quantile,time_s,kind\n{rows}"));
        let svg = drawing.scene.svg();
        assert!(svg.contains(">below one step<") && !svg.contains("too short to tell"), "{svg}");
    }

    #[test]
    fn a_lower_bound_of_nothing_is_left_out() {
        assert_eq!(Quantile::of(None, Some(0.0)), None);
        assert_eq!(Quantile::of(None, Some(0.1)), Some(Quantile::AtLeast(0.1)));
        assert_eq!(Quantile::of(Some(0.0), None), Some(Quantile::Value(0.0)));
    }
}
