//! `speed`: tokens per second of configurations.

use super::chart::axis::{Axis, Quantity};
use super::chart::mark::{Marker, interval};
use super::chart::palette::{AXIS, INK};
use super::chart::plot::{cells, drawable};
use super::chart::rows::Rows;
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::labels::short_labels;
use super::scene::Stroke;
use super::size::FigureSize;
use super::table::Table;
use crate::compare::Comparison;

pub(super) const SPEED: FigureKind = FigureKind {
    name: "speed",
    shows: "Tokens per second of prompts and of decode steps, median with the smallest and the largest.",
    needs: "speeds",
    draw: Draw::Runs(|comparison, size| Ok(draw(comparison, size))),
};

const ROW_MM: f64 = 5.0;
const AROUND_MM: f64 = 12.0;
const GAP_PT: f64 = 8.0;
const PANELS: [(&str, &str); 2] =
    [("decode_tokens_per_s", "Decode speed (tokens/s)"), ("prompt_tokens_per_s", "Prompt speed (tokens/s)")];

fn draw(comparison: &Comparison, size: FigureSize) -> Option<Drawing> {
    let has = |figure: &str| comparison.groups.iter().any(|group| group.figures.contains_key(figure));
    let panels: Vec<(&str, &str)> = PANELS.into_iter().filter(|(figure, _)| has(figure)).collect();
    if panels.is_empty() {
        return None;
    }
    let height_mm = AROUND_MM + ROW_MM * comparison.groups.len() as f64;
    let mut scene = size.scene(height_mm * panels.len() as f64, height_mm);
    let names = short_labels(comparison, &comparison.groups.iter().collect::<Vec<_>>());
    let columns = if size.is_wide() { panels.len() } else { 1 };
    let mut table = Table::new(&["configuration", "speed", "n", "median_tokens_per_s", "min", "max"]);
    let places = cells(drawable(&scene), panels.len(), columns, GAP_PT);
    for ((figure, title), cell) in panels.into_iter().zip(places) {
        let spreads = || comparison.groups.iter().map(|group| group.figures.get(figure));
        let most = spreads().flatten().map(|spread| spread.max).fold(0.0, f64::max);
        let x = Axis::from_zero(title, Quantity::Number, most, cell.width() / 4.0);
        let rows = Rows::open(&mut scene, cell, &x, &names, 0.0);
        for (place, spread) in spreads().enumerate() {
            let Some(spread) = spread else { continue };
            let at = |speed: f64| (rows.plot.x(speed), rows.middle(place));
            scene.line(&[at(0.0), at(spread.median)], Stroke { width_pt: 0.5, ..AXIS });
            if spread.n > 1 {
                interval(&mut scene, at(spread.min), at(spread.max), INK);
            }
            Marker::Circle.draw(&mut scene, at(spread.median), 2.2, INK);
            table.row([
                names[place].as_str().into(),
                figure.into(),
                (spread.n as u64).into(),
                spread.median.into(),
                spread.min.into(),
                spread.max.into(),
            ]);
        }
    }
    Some(Drawing { scene, table })
}
