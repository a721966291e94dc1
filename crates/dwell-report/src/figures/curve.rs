//! `curve`: memory against context length.

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::palette::{MUTED, series};
use super::chart::plot::{drawable, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::labels::kind_name;
use super::scene::Stroke;
use super::size::FigureSize;
use super::table::Table;
use crate::compare::Comparison;
use crate::compare_context::ContextLine;
use crate::numbers;

pub(super) const CURVE: FigureKind = FigureKind {
    name: "curve",
    shows: "Steady memory of one kind against context length: every run, the fitted line, and the line by theory.",
    needs: "runs of one engine and model with two context lengths and a kind of memory that all runs have",
    draw: Draw::Runs(|comparison, size| Ok(draw(comparison, size))),
};

const RADIUS_PT: f64 = 1.9;

fn draw(comparison: &Comparison, size: FigureSize) -> Option<Drawing> {
    let lines = &comparison.drawn_context_lines;
    let points = || lines.iter().flat_map(|line| &line.points);
    let longest = points().map(|&(length, _)| length).max()? as f64;
    let most = points().map(|&(_, bytes)| bytes).fold(0.0, f64::max);
    let mut scene = size.scene(66.0, 70.0);
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(lines));
    let x = Axis::from_zero("Context length (positions)", Quantity::Number, longest, area.width() / 3.0);
    let basis = basis_name(lines.first()?);
    let y = Axis::from_zero(&format!("Steady memory, {basis}"), Quantity::Bytes, most, area.height() - 30.0);
    let plot = opened(&mut scene, area, &x, &y, 0.0);
    let mut table = Table::new(&["engine", "model_id", "kv_type", "memory", "series", "context_length", "bytes"]);
    for (place, line) in lines.iter().enumerate() {
        let (stroke, marker) = series(place);
        let thin = Stroke { width_pt: 0.5, dashes_pt: &[], ..stroke };
        // Beyond its own runs nothing is known of a configuration, however long the contexts of others are.
        let end = line.points.iter().map(|&(length, _)| length).max().unwrap_or(0) as f64;
        let straight = |slope: f64| [(0.0, line.base_bytes), (end, line.base_bytes + slope * end)];
        let mut note = |series: &str, context_length: f64, bytes: f64| {
            table.row([
                line.engine.as_str().into(),
                line.model_id.as_str().into(),
                line.kv_type.as_deref().into(),
                basis.as_str().into(),
                series.into(),
                context_length.into(),
                bytes.into(),
            ]);
        };
        let slopes = [("fit", Some(line.bytes_per_token), stroke), ("theory", line.theory_bytes_per_token, thin)];
        for (name, slope, stroke) in slopes {
            let Some(slope) = slope else { continue };
            let ends = straight(slope);
            scene.line(&ends.map(|(length, bytes)| plot.at(length, bytes)), stroke);
            ends.iter().for_each(|&(length, bytes)| note(name, length, bytes));
        }
        for &(length, bytes) in &line.points {
            marker.draw(&mut scene, plot.at(length as f64, bytes), RADIUS_PT, stroke.colour);
            note("run", length as f64, bytes);
        }
    }
    Some(Drawing { scene, table })
}

/// `PSS`, or `own without compute buffers`.
fn basis_name(line: &ContextLine) -> String {
    let compute = if line.is_without_compute { " without compute buffers" } else { "" };
    format!("{}{compute}", kind_name(line.memory))
}

fn entries(lines: &[ContextLine]) -> Vec<Entry> {
    let per_position = |bytes: f64| format!("{}/position", numbers::bytes(bytes.max(0.0).round() as u64));
    let same = |of: fn(&ContextLine) -> &str| lines.iter().all(|line| of(line) == of(&lines[0]));
    let (is_one_engine, is_one_model) = (same(|line| &line.engine), same(|line| &line.model_id));
    let entry = |(place, line): (usize, &ContextLine)| {
        let (stroke, marker) = series(place);
        let parts = [
            (!is_one_engine).then(|| line.engine.clone()),
            (!is_one_model).then(|| line.model_id.clone()),
            Some(line.kv_type.clone().unwrap_or_else(|| "KV type unknown".to_owned())),
            Some(per_position(line.bytes_per_token)),
        ];
        let title = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
        Entry::new(title, Sample::MarkedLine(stroke, marker))
    };
    let mut entries: Vec<Entry> = lines.iter().enumerate().map(entry).collect();
    if lines.iter().any(|line| line.theory_bytes_per_token.is_some()) {
        entries.push(Entry::new("KV cache by theory, thin", Sample::Line(Stroke::solid(MUTED, 0.5))));
    }
    entries
}
