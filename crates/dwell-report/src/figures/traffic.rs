//! `traffic`: bandwidth over time.

use dwell_analysis::overview::TrafficSeries;

use super::chart::axis::{Axis, Quantity};
use super::chart::legend::{Entry, Sample, legend};
use super::chart::mirrored::{Greatest, Mirrored};
use super::chart::palette::{region_colour, region_rank};
use super::chart::plot::{Plot, drawable};
use super::chart::steps::{fill_between, stacked_on};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::phases::{PHASES_PT, draw_phases};
use super::scene::Scene;
use super::size::FigureSize;
use super::table::Table;
use crate::page::{RunPage, region_title};

pub(super) const TRAFFIC: FigureKind = FigureKind {
    name: "traffic",
    shows: "Bandwidth by region type over time: loads upwards, stores downwards, each on its own scale.",
    needs: "accesses",
    draw: Draw::Run(draw),
};

/// The bandwidth of a region type, one number per bin.
struct Bandwidth<'a> {
    region_type: &'a str,
    loaded: Vec<f64>,
    stored: Vec<f64>,
}

/// Loads or stores.
type Side = for<'a> fn(&'a Bandwidth<'_>) -> &'a Vec<f64>;

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let traffic = &run.overview.traffic;
    let mut scene = size.scene(62.0, 62.0);
    let area = drawable(&scene);
    // More bins than points cannot be seen.
    let bins_per_span = (traffic.axis.bins as usize).div_ceil(area.width() as usize).max(1);
    let spans = (traffic.axis.bins as usize).div_ceil(bins_per_span);
    let span_s = traffic.axis.bin_ns as f64 / 1e9 * bins_per_span as f64;
    let begin_s = run.timeline.seconds(traffic.axis.first_bin_ns);
    let edges: Vec<f64> = (0..=spans).map(|span| begin_s + span as f64 * span_s).collect();
    let mut bandwidths: Vec<Bandwidth<'_>> =
        traffic.series.iter().map(|series| bandwidth(series, bins_per_span, span_s)).collect();
    bandwidths.sort_by_key(|bandwidth| region_rank(bandwidth.region_type));
    if bandwidths.is_empty() || spans == 0 {
        return None;
    }
    let entry =
        |of: &Bandwidth<'_>| Entry::new(region_title(of.region_type), Sample::Area(region_colour(of.region_type)));
    let area = legend(&mut scene, area, &bandwidths.iter().map(entry).collect::<Vec<_>>());
    let x = Axis::between("Time since the run began", Quantity::Seconds, begin_s, *edges.last()?, area.width() / 2.0);
    let most = Greatest {
        loaded: highest(&bandwidths, spans, |bandwidth| &bandwidth.loaded),
        stored: highest(&bandwidths, spans, |bandwidth| &bandwidth.stored),
    };
    let plots = Mirrored::open(&mut scene, area, &x, Quantity::BytesPerSecond, &most, PHASES_PT);
    stack(&mut scene, &plots.loads, &edges, &bandwidths, |bandwidth| &bandwidth.loaded);
    stack(&mut scene, &plots.stores, &edges, &bandwidths, |bandwidth| &bandwidth.stored);
    plots.close(&mut scene);
    draw_phases(&mut scene, &plots.loads, &run.timeline);
    Some(Drawing { scene, table: table(&bandwidths, &edges) })
}

fn bandwidth(series: &TrafficSeries, bins_per_span: usize, span_s: f64) -> Bandwidth<'_> {
    let rate = |bytes: &[u64]| bytes.iter().sum::<u64>() as f64 / span_s;
    Bandwidth {
        region_type: &series.region_type,
        loaded: series.read_bytes.chunks(bins_per_span).map(rate).collect(),
        stored: series.written_bytes.chunks(bins_per_span).map(rate).collect(),
    }
}

/// The highest sum over all region types.
fn highest(bandwidths: &[Bandwidth<'_>], spans: usize, side: Side) -> f64 {
    let sum = |span: usize| bandwidths.iter().filter_map(|bandwidth| side(bandwidth).get(span)).sum::<f64>();
    (0..spans).map(sum).fold(0.0, f64::max)
}

fn stack(scene: &mut Scene, plot: &Plot, edges: &[f64], bandwidths: &[Bandwidth<'_>], side: Side) {
    let mut sums = vec![0.0; edges.len() - 1];
    for bandwidth in bandwidths {
        let below = stacked_on(&mut sums, side(bandwidth).iter().copied());
        fill_between(scene, plot, edges, &below, &sums, region_colour(bandwidth.region_type));
    }
}

fn table(bandwidths: &[Bandwidth<'_>], edges: &[f64]) -> Table {
    let mut table = Table::new(&["region_type", "begin_s", "end_s", "loaded_bytes_per_s", "stored_bytes_per_s"]);
    for bandwidth in bandwidths {
        let sides = bandwidth.loaded.iter().zip(&bandwidth.stored);
        for (span, (&loaded, &stored)) in edges.windows(2).zip(sides) {
            table.row([bandwidth.region_type.into(), span[0].into(), span[1].into(), loaded.into(), stored.into()]);
        }
    }
    table
}
