//! `memory`: resident memory over time, and what it is made of.

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::palette::{INK, MINUS, part_colour, source_colour};
use super::chart::plot::{cells, drawable, opened};
use super::chart::rows::Rows;
use super::chart::steps::stacked_on;
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::phases::{PHASES_PT, draw_phases};
use super::scene::{Point, Rect, Scene};
use super::size::FigureSize;
use super::table::Table;
use crate::page::{MemoryPart, RunPage, Samples};

pub(super) const MEMORY: FigureKind = FigureKind {
    name: "memory",
    shows: "Resident memory by kind over time, and the parts of its steady state by where their size comes from.",
    needs: "samples of memory",
    draw: Draw::Run(draw),
};

const GAP_PT: f64 = 8.0;
const TOTAL: &str = "total";

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let samples = run.timeline.memory.as_ref();
    let panels = usize::from(samples.is_some()) + usize::from(!run.memory_parts.is_empty());
    if panels == 0 {
        return None;
    }
    let mut scene = size.scene(if panels == 2 { 108.0 } else { 56.0 }, 58.0);
    let columns = if size.is_wide() { panels } else { 1 };
    let mut places = cells(drawable(&scene), panels, columns, GAP_PT).into_iter();
    let mut table = Table::new(&["panel", "series", "source", "time_s", "bytes"]);
    if let (Some(samples), Some(cell)) = (samples, samples.and_then(|_| places.next())) {
        draw_samples(&mut scene, run, samples, cell);
        for series in &samples.series {
            for (&time_s, &bytes) in samples.time_s.iter().zip(&series.values) {
                table.row(["over_time".into(), series.name.into(), "sampled".into(), time_s.into(), bytes.into()]);
            }
        }
    }
    if let Some(cell) = places.next() {
        draw_parts(&mut scene, &run.memory_parts, cell);
        for part in &run.memory_parts {
            let none = None::<f64>;
            table.row(["parts".into(), part.name.into(), part.source.into(), none.into(), (part.bytes as f64).into()]);
        }
    }
    Some(Drawing { scene, table })
}

/// Kinds of memory on top of each other.
fn draw_samples(scene: &mut Scene, run: &RunPage, samples: &Samples, cell: Rect) {
    let entry = |(place, title): (usize, &str)| Entry::new(title, Sample::Area(part_colour(place)));
    let titles = samples.series.iter().map(|series| series.title).enumerate();
    let cell = legend(scene, cell, &titles.map(entry).collect::<Vec<_>>());
    let count = samples.time_s.len();
    let sum = |at: usize| samples.series.iter().filter_map(|series| series.values[at]).sum::<f64>();
    let most = (0..count).map(sum).fold(0.0, f64::max);
    let end_s = samples.time_s.last().copied().unwrap_or(1.0).max(run.timeline.end_s);
    let x = Axis::between("Time since the run began", Quantity::Seconds, 0.0, end_s, cell.width() / 2.5);
    let y = Axis::from_zero("Resident memory", Quantity::Bytes, most, cell.height() - 40.0);
    let plot = opened(scene, cell, &x, &y, PHASES_PT);
    let mut sums = vec![0.0; count];
    for (place, series) in samples.series.iter().enumerate() {
        let below = stacked_on(&mut sums, series.values.iter().map(|bytes| bytes.unwrap_or(0.0)));
        let line = |bytes: &[f64]| -> Vec<Point> {
            samples.time_s.iter().zip(bytes).map(|(&time_s, &bytes)| plot.at(time_s, bytes)).collect()
        };
        let mut outline = line(&sums);
        outline.extend(line(&below).into_iter().rev());
        scene.fill(&outline, part_colour(place));
    }
    plot.draw_base(scene);
    draw_phases(scene, &plot, &run.timeline);
}

/// Each bar begins where the one before ended; the last is their sum.
fn draw_parts(scene: &mut Scene, parts: &[MemoryPart], cell: Rect) {
    let mut sources: Vec<&str> = parts.iter().map(|part| part.source).collect();
    sources.sort_unstable();
    sources.dedup();
    let place_of = |source: &str| sources.iter().position(|known| *known == source).unwrap_or(0);
    let entry = |source: &&str| Entry::new(*source, Sample::Area(source_colour(place_of(source))));
    let mut entries: Vec<Entry> = sources.iter().map(entry).collect();
    if parts.iter().any(|part| part.bytes < 0) {
        entries.push(Entry::new("taken off", Sample::Area(MINUS)));
    }
    let cell = legend(scene, cell, &entries);
    let ends = ends_of(parts);
    let (least, most) = ends.iter().fold((0f64, 0f64), |(least, most), &(_, to)| (least.min(to), most.max(to)));
    let x = Axis::between("Steady memory", Quantity::Bytes, least, most * 1.03, cell.width() / 4.0);
    let names: Vec<String> = parts.iter().map(|part| part.title).chain([TOTAL]).map(str::to_owned).collect();
    let rows = Rows::open(scene, cell, &x, &names, PHASES_PT);
    for (place, (part, &(from, to))) in parts.iter().zip(&ends).enumerate() {
        let colour = if part.bytes < 0 { MINUS } else { source_colour(place_of(part.source)) };
        scene.rect(rows.bar(place, from, to), colour);
    }
    scene.rect(rows.bar(parts.len(), 0.0, ends.last().map_or(0.0, |&(_, to)| to)), INK);
}

/// Where each part begins and ends.
fn ends_of(parts: &[MemoryPart]) -> Vec<(f64, f64)> {
    let mut at = 0.0;
    let end = |part: &MemoryPart| {
        let from = at;
        at += part.bytes as f64;
        (from, at)
    };
    parts.iter().map(end).collect()
}
