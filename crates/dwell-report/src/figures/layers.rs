//! `layers`: bytes loaded and stored by layer.

use std::collections::BTreeMap;

use super::chart::axis::{Axis, Quantity, Scale, Tick};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mirrored::{Greatest, Mirrored};
use super::chart::palette::{region_colour, region_rank};
use super::chart::plot::{Plot, drawable};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::scene::{Rect, Scene};
use super::size::FigureSize;
use super::table::Table;
use crate::page::{RunPage, region_title};

pub(super) const LAYERS: FigureKind = FigureKind {
    name: "layers",
    shows: "Bytes of every load and store of a layer's memory, clears included, by region type; loads and stores on scales of their own.",
    needs: "accesses to layers",
    draw: Draw::Run(draw),
};

/// Share of the distance of two bars that a bar takes.
const BAR_SHARE: f64 = 0.78;

/// Loaded and stored bytes by place of the region type, then its name.
type Layer<'a> = BTreeMap<(usize, &'a str), (u64, u64)>;

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let mut layers: BTreeMap<u16, Layer<'_>> = BTreeMap::new();
    for place in &run.overview.places {
        let Some(layer) = place.layer else { continue };
        let region_type = place.region_type.as_str();
        let sum = layers.entry(layer).or_default().entry((region_rank(region_type), region_type)).or_default();
        *sum = (sum.0.saturating_add(place.read_bytes), sum.1.saturating_add(place.written_bytes));
    }
    let (first, last) = (*layers.keys().next()?, *layers.keys().next_back()?);
    let mut types: Vec<(usize, &str)> = layers.values().flat_map(|layer| layer.keys().copied()).collect();
    types.sort_unstable();
    types.dedup();
    let mut scene = size.scene(60.0, 60.0);
    let entry = |&(_, name): &(usize, &str)| Entry::new(region_title(name), Sample::Area(region_colour(name)));
    let sheet = drawable(&scene);
    let area = legend(&mut scene, sheet, &types.iter().map(entry).collect::<Vec<_>>());
    let highest = |side: fn(&(u64, u64)) -> u64| {
        let sums = layers.values().map(|layer| layer.values().map(side).sum::<u64>());
        sums.max().unwrap_or(0) as f64
    };
    let most = Greatest { loaded: highest(|sum| sum.0), stored: highest(|sum| sum.1) };
    let x = layer_axis(first, last);
    let plots = Mirrored::open(&mut scene, area, &x, Quantity::Bytes, &most, 0.0);
    for (&layer, parts) in &layers {
        stack(&mut scene, &plots.loads, layer, parts, |sum| sum.0);
        stack(&mut scene, &plots.stores, layer, parts, |sum| sum.1);
    }
    plots.close(&mut scene);
    Some(Drawing { scene, table: table(&layers) })
}

/// Labels that do not fit beside each other are left out when they are drawn.
fn layer_axis(first: u16, last: u16) -> Axis {
    let tick = |layer: u16| Tick { value: f64::from(layer), label: layer.to_string() };
    Axis {
        scale: Scale::linear(f64::from(first) - 0.5, f64::from(last) + 0.5),
        ticks: (first..=last).map(tick).collect(),
        title: "Layer".to_owned(),
    }
}

fn stack(scene: &mut Scene, plot: &Plot, layer: u16, parts: &Layer<'_>, side: fn(&(u64, u64)) -> u64) {
    let half = BAR_SHARE / 2.0;
    let (left, right) = (plot.x(f64::from(layer) - half), plot.x(f64::from(layer) + half));
    let mut below = 0.0;
    for (&(_, region_type), bytes) in parts {
        let above = below + side(bytes) as f64;
        let (one, other) = (plot.y(below), plot.y(above));
        if above > below {
            let bar = Rect { left, right, top: one.min(other), bottom: one.max(other) };
            scene.rect(bar, region_colour(region_type));
        }
        below = above;
    }
}

fn table(layers: &BTreeMap<u16, Layer<'_>>) -> Table {
    let mut table =
        Table::new(&["layer", "region_type", "loaded_bytes", "stored_bytes", "loaded_bytes_per_stored_byte"]);
    for (&layer, parts) in layers {
        for (&(_, region_type), &(loaded, stored)) in parts {
            let ratio = (stored > 0).then(|| loaded as f64 / stored as f64);
            table.row([u64::from(layer).into(), region_type.into(), loaded.into(), stored.into(), ratio.into()]);
        }
    }
    table
}
