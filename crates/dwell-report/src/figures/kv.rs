//! `kv`: lives of the KV cache by position and time.

use dwell_analysis::overview::KvMap;

use super::chart::axis::{Axis, LABEL_PT, Quantity};
use super::chart::heat::{HeatScale, shade_bar};
use super::chart::palette::{MUTED, READ, region_colour};
use super::chart::plot::{cells, drawable, opened};
use super::drawn::Drawing;
use super::kind::{Draw, FigureKind};
use super::phases::{PHASES_PT, draw_phases};
use super::scene::{Align, Colour, Image, Rect, Scene, Shape};
use super::size::FigureSize;
use super::table::Table;
use crate::numbers;
use crate::page::RunPage;

pub(super) const KV: FigureKind = FigureKind {
    name: "kv",
    shows: "The KV cache by position and time: bytes held, and reads, spread evenly over each life; all layers together.",
    needs: "KV blocks",
    draw: Draw::Run(draw),
};

const LEGEND_PT: f64 = 21.0;
const NOTE_BELOW_PT: f64 = 9.0;
const GAP_PT: f64 = 8.0;

const READS_NOTE: &str = "reads, spread evenly over each life";

/// One number per cell, `row * bins + bin`.
struct Panel {
    title: &'static str,
    /// What a reader must know of the values; empty for nothing.
    note: &'static str,
    colour: Colour,
    values: Vec<f64>,
    text: fn(f64) -> String,
}

fn draw(run: &RunPage, size: FigureSize) -> Option<Drawing> {
    let map = run.overview.kv.as_ref().filter(|map| map.rows > 0 && map.axis.bins > 0)?;
    let begin_s = run.timeline.seconds(map.axis.first_bin_ns);
    let bin_s = map.axis.bin_ns as f64 / 1e9;
    let panels = [
        Panel {
            title: "bytes held",
            note: "",
            colour: region_colour("kv_cache"),
            values: summed(map, |layer| &layer.resident_bytes, |bytes| *bytes as f64),
            text: |bytes| numbers::bytes(bytes.round() as u64),
        },
        Panel {
            title: "reads",
            // The table of blocks counts reads and does not time them.
            note: READS_NOTE,
            colour: READ,
            values: summed(map, |layer| &layer.cell_reads, |reads| f64::from(*reads)),
            text: |reads| numbers::count(reads.round() as u64),
        },
    ];
    let mut scene = size.scene(110.0, 62.0);
    let columns = if size.is_wide() { 2 } else { 1 };
    let places = cells(drawable(&scene), panels.len(), columns, GAP_PT);
    for (panel, cell) in panels.iter().zip(places) {
        panel.draw(&mut scene, run, map, cell, (begin_s, bin_s));
    }
    Some(Drawing { scene, table: table(map, &panels, begin_s, bin_s) })
}

/// All layers together.
fn summed<T>(
    map: &KvMap,
    column: fn(&dwell_analysis::overview::KvLayerMap) -> &Vec<T>,
    number: fn(&T) -> f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; map.rows as usize * map.axis.bins as usize];
    for layer in &map.layers {
        for (&cell, value) in layer.cell.iter().zip(column(layer)) {
            if let Some(sum) = sums.get_mut(cell as usize) {
                *sum += number(value);
            }
        }
    }
    sums
}

impl Panel {
    fn draw(&self, scene: &mut Scene, run: &RunPage, map: &KvMap, cell: Rect, (begin_s, bin_s): (f64, f64)) {
        let (bins, rows) = (map.axis.bins as usize, map.rows as usize);
        let scale = HeatScale::linear(self.values.iter().copied());
        let x = Axis::between(
            "Time since the run began",
            Quantity::Seconds,
            begin_s,
            begin_s + bin_s * bins as f64,
            cell.width() / 2.5,
        );
        let positions = map.rows as f64 * map.positions_per_row as f64;
        let y = Axis::between("Position in the sequence", Quantity::Number, 0.0, positions, cell.height() - 50.0);
        let inside = Rect { top: cell.top + LEGEND_PT, ..cell };
        let plot = opened(scene, inside, &x, &y, PHASES_PT);
        // The first position is below.
        let pixels = (0..rows).rev().flat_map(|row| &self.values[row * bins..(row + 1) * bins]);
        let pixels = pixels.map(|value| self.colour.tint(scale.darkness(*value))).collect();
        scene.add(Shape::Image(Image { place: plot.area, columns: bins, pixels }));
        plot.draw_base(scene);
        draw_phases(scene, &plot, &run.timeline);
        let at = (plot.area.left, cell.top + LABEL_PT / 2.0 + 0.5);
        let positions = crate::text::counted(map.positions_per_row, "position");
        let title = format!("{} in {positions} × {}", self.title, numbers::seconds(bin_s));
        shade_bar(scene, at, &title, self.colour, [(self.text)(0.0), (self.text)(scale.most)]);
        if !self.note.is_empty() {
            scene.label((at.0, at.1 + NOTE_BELOW_PT), Align::Begin, LABEL_PT, MUTED, self.note);
        }
    }
}

fn table(map: &KvMap, panels: &[Panel; 2], begin_s: f64, bin_s: f64) -> Table {
    let mut table =
        Table::new(&["first_position", "positions", "begin_s", "end_s", "held_bytes", "reads_spread_evenly"]);
    let bins = map.axis.bins as usize;
    for (cell, (&held, &reads)) in panels[0].values.iter().zip(&panels[1].values).enumerate() {
        if held > 0.0 || reads > 0.0 {
            let cell_begin_s = begin_s + (cell % bins) as f64 * bin_s;
            let first = (cell / bins) as u64 * map.positions_per_row;
            let end_s = cell_begin_s + bin_s;
            table.row([
                first.into(),
                map.positions_per_row.into(),
                cell_begin_s.into(),
                end_s.into(),
                held.into(),
                reads.into(),
            ]);
        }
    }
    table
}
