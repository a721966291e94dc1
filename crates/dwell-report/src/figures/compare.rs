//! `compare`: the parts of memory of configurations, one below the other.

use dwell_analysis::memory::MemoryKind;

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mark::{Marker, interval};
use super::chart::palette::{INK, MINUS, part_colour, region_colour};
use super::chart::plot::drawable;
use super::chart::rows::Rows;
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::labels::{kind_name, short_labels};
use super::scene::{Colour, Scene};
use super::size::FigureSize;
use super::table::Table;
use crate::compare::{CompareGroup, Comparison};

pub(super) const COMPARE: FigureKind = FigureKind {
    name: "compare",
    shows: "Steady memory of configurations, stacked by part: weights, KV cache, compute buffers and the rest.",
    needs: "steady memory",
    draw: Draw::Runs(|comparison, size| Ok(draw(comparison, size))),
};

const ROW_MM: f64 = 5.5;
const AROUND_MM: f64 = 18.0;
/// The figures of parts, with their titles.
const PARTS: [(&str, &str); 4] = [
    ("steady_weights_bytes", "weights"),
    ("steady_kv_cache_bytes", "KV cache"),
    ("steady_compute_bytes", "compute"),
    ("steady_unaccounted_bytes", "unaccounted"),
];
/// What parts were given more than there is of them; below 0.
const NOT_RESIDENT: &str = "steady_not_resident_bytes";
const TOTAL: &str = "steady_bytes";

fn colour_of(place: usize) -> Colour {
    match PARTS[place].0 {
        "steady_weights_bytes" => region_colour("weight"),
        "steady_kv_cache_bytes" => region_colour("kv_cache"),
        "steady_compute_bytes" => region_colour("activation"),
        _ => part_colour(1),
    }
}

fn draw(comparison: &Comparison, size: FigureSize) -> Option<Drawing> {
    let groups: Vec<&CompareGroup> =
        comparison.groups.iter().filter(|group| group.figures.contains_key(TOTAL)).collect();
    let median = |group: &CompareGroup, figure: &str| group.figures.get(figure).map(|spread| spread.median);
    let sum = |group: &CompareGroup| PARTS.iter().filter_map(|(figure, _)| median(group, figure)).sum::<f64>();
    let total = |group: &CompareGroup| group.figures.get(TOTAL).map_or(0.0, |spread| spread.max);
    let most = groups.iter().map(|group| sum(group).max(total(group))).reduce(f64::max)?;
    let least = groups.iter().filter_map(|group| median(group, NOT_RESIDENT)).fold(0.0, f64::min);
    let height_mm = AROUND_MM + ROW_MM * groups.len() as f64;
    let mut scene = size.scene(height_mm, height_mm);
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &entries(&groups));
    let kind = total_kind(&groups);
    let title = kind.map_or_else(|| "Steady memory".to_owned(), |kind| format!("Steady memory, {}", kind_name(kind)));
    let x = Axis::between(&title, Quantity::Bytes, least * 1.03, most * 1.03, area.width() / 4.0);
    let names = short_labels(comparison, &groups);
    let rows = Rows::open(&mut scene, area, &x, &names, 0.0);
    let mut table = Table::new(&["configuration", "memory", "part", "n", "median_bytes", "min_bytes", "max_bytes"]);
    for (place, group) in groups.iter().enumerate() {
        draw_group(&mut scene, &rows, place, group);
        for figure in PARTS.iter().map(|(figure, _)| *figure).chain([NOT_RESIDENT, TOTAL]) {
            if let Some(spread) = group.figures.get(figure) {
                let name = names[place].as_str();
                let n = spread.n as u64;
                table.row([
                    name.into(),
                    kind.map(kind_name).into(),
                    part_name(figure).into(),
                    n.into(),
                    spread.median.into(),
                    spread.min.into(),
                    spread.max.into(),
                ]);
            }
        }
    }
    Some(Drawing { scene, table })
}

/// `kv_cache` for `steady_kv_cache_bytes`, `total` for the total.
fn part_name(figure: &str) -> &str {
    figure.strip_prefix("steady_").and_then(|name| name.strip_suffix("_bytes")).unwrap_or("total")
}

/// The kind of memory that all totals are of.
fn total_kind(groups: &[&CompareGroup]) -> Option<MemoryKind> {
    groups.iter().flat_map(|group| &group.total_kinds).find_map(|name| MemoryKind::from_name(name))
}

fn entries(groups: &[&CompareGroup]) -> Vec<Entry> {
    let has = |figure: &str| groups.iter().any(|group| group.figures.contains_key(figure));
    let parts = PARTS.iter().enumerate().filter(|(_, (figure, _))| has(figure));
    let mut entries: Vec<Entry> =
        parts.map(|(place, (_, title))| Entry::new(*title, Sample::Area(colour_of(place)))).collect();
    if has(NOT_RESIDENT) {
        entries.push(Entry::new("not resident", Sample::Area(MINUS)));
    }
    entries.push(Entry::new("total, median and range", Sample::Mark(Marker::Diamond, INK)));
    entries
}

fn draw_group(scene: &mut Scene, rows: &Rows, place: usize, group: &CompareGroup) {
    let mut at = 0.0;
    for (part, (figure, _)) in PARTS.iter().enumerate() {
        if let Some(spread) = group.figures.get(figure) {
            scene.rect(rows.bar(place, at, at + spread.median), colour_of(part));
            at += spread.median;
        }
    }
    if let Some(spread) = group.figures.get(NOT_RESIDENT) {
        scene.rect(rows.bar(place, spread.median, 0.0), MINUS);
    }
    if let Some(total) = group.figures.get(TOTAL) {
        let at = |bytes: f64| (rows.plot.x(bytes), rows.middle(place));
        if total.n > 1 {
            interval(scene, at(total.min), at(total.max), INK);
        }
        Marker::Diamond.draw_hollow(scene, at(total.median), 2.0, INK);
    }
}
