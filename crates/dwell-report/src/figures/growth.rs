//! `growth`: memory while tokens are generated.

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::palette::series;
use super::chart::plot::{drawable, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind, MaybeDrawn};
use super::labels::short_labels;
use super::size::FigureSize;
use super::table::Table;
use crate::compare::Comparison;
use crate::compare_curve::memory_over_tokens;

pub(super) const GROWTH: FigureKind = FigureKind {
    name: "growth",
    shows: "Memory when each token came, of the first run of each configuration.",
    needs: "tokens with memory",
    draw: Draw::Runs(draw),
};

fn draw(comparison: &Comparison, size: FigureSize) -> MaybeDrawn {
    let mut lines = Vec::new();
    let labels = short_labels(comparison, &comparison.groups.iter().collect::<Vec<_>>());
    for (group, label) in comparison.groups.iter().zip(labels) {
        let Some(run) = group.paths.first() else { continue };
        let points = memory_over_tokens(run)?;
        if points.len() > 1 {
            lines.push((label, points));
        }
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let Some(last) = points().map(|&(tokens, _)| tokens).max() else { return Ok(None) };
    let most = points().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let mut scene = size.scene(66.0, 66.0);
    let names = lines.iter().map(|(name, _)| name.clone());
    let entries: Vec<Entry> =
        names.enumerate().map(|(place, name)| Entry::new(name, Sample::Line(series(place).0))).collect();
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries);
    let x = Axis::between("Tokens generated", Quantity::Number, 0.0, last as f64, area.width() / 2.0);
    let y = Axis::from_zero("Memory of the engine", Quantity::Bytes, most as f64, area.height() - 30.0);
    let plot = opened(&mut scene, area, &x, &y, 0.0);
    let mut table = Table::new(&["configuration", "tokens", "bytes"]);
    for (place, (name, points)) in lines.iter().enumerate() {
        let line: Vec<_> = points.iter().map(|&(tokens, bytes)| plot.at(tokens as f64, bytes as f64)).collect();
        scene.line(&line, series(place).0);
        points.iter().for_each(|&(tokens, bytes)| table.row([name.as_str().into(), tokens.into(), bytes.into()]));
    }
    Ok(Some(Drawing { scene, table }))
}
