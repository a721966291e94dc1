//! Rows with names: one below the other, values along the horizontal axis.

use super::axis::{Axis, LABEL_PT, Scale};
use super::palette::{AXIS, GRID, INK};
use super::plot::{Plot, fitted, inner};
use crate::figures::scene::{Align, Rect, Scene, text_width};

const GAP_PT: f64 = 4.0;
/// Names take this share of the width at most.
const NAMES_SHARE: f64 = 0.42;

/// The plot of rows with its axis and names.
pub(in crate::figures) struct Rows {
    pub(in crate::figures) plot: Plot,
    count: usize,
}

impl Rows {
    pub(in crate::figures) fn open(scene: &mut Scene, cell: Rect, x: &Axis, names: &[String], above_pt: f64) -> Self {
        let widest = names.iter().map(|name| text_width(name, LABEL_PT)).fold(0.0, f64::max);
        let names_width = (widest + GAP_PT).min(cell.width() * NAMES_SHARE);
        let area = inner(cell, names_width, x, above_pt);
        let places = Axis { scale: Scale::linear(0.0, 1.0), ticks: Vec::new(), title: String::new() };
        let rows = Self { plot: Plot::new(area, x, &places), count: names.len() };
        for tick in &x.ticks {
            let at = rows.plot.x(tick.value);
            scene.line(&[(at, area.top), (at, area.bottom)], GRID);
        }
        scene.line(&[(area.left, area.top), (area.left, area.bottom)], AXIS);
        rows.plot.draw_x(scene, x);
        for (place, name) in names.iter().enumerate() {
            let name = fitted(name, LABEL_PT, names_width - GAP_PT);
            scene.label((area.left - GAP_PT, rows.middle(place)), Align::End, LABEL_PT, INK, &name);
        }
        rows
    }

    /// Height of the middle of a row.
    pub(in crate::figures) fn middle(&self, place: usize) -> f64 {
        let Rect { top, .. } = self.plot.area;
        top + (place as f64 + 0.5) * self.plot.area.height() / self.count.max(1) as f64
    }

    /// A bar in a row between two values.
    pub(in crate::figures) fn bar(&self, place: usize, from: f64, to: f64) -> Rect {
        let half = (self.plot.area.height() / self.count.max(1) as f64 * 0.32).min(6.0);
        let (one, other) = (self.plot.x(from), self.plot.x(to));
        let middle = self.middle(place);
        Rect { left: one.min(other), right: one.max(other), top: middle - half, bottom: middle + half }
    }
}
