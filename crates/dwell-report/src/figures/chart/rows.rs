//! Rows with names: one below the other, values along the horizontal axis.

use super::axis::{Axis, LABEL_PT, Scale};
use super::palette::{AXIS, GRID, INK};
use super::plot::{Plot, fitted_middle, inner};
use crate::figures::scene::{Align, Rect, Scene, text_width};

const GAP_PT: f64 = 4.0;
/// Names take this share of the width at most.
const NAMES_SHARE: f64 = 0.42;

/// From one line of a name to the next.
const LINE_PT: f64 = 7.2;
/// Between the parts of a name.
const SEPARATOR: &str = " · ";

/// A name in one line, or between its parts in two; what does not fit then is shortened in the middle.
fn wrapped(name: &str, width_pt: f64) -> Vec<String> {
    let fits = |text: &str| text_width(text, LABEL_PT) <= width_pt;
    let breaks: Vec<usize> = name.match_indices(SEPARATOR).map(|(at, _)| at).collect();
    let lines = match breaks.as_slice() {
        _ if fits(name) => vec![name],
        [] => vec![name],
        [first, ..] => {
            let at = breaks.iter().rev().find(|&&at| fits(&name[..at])).unwrap_or(first);
            vec![&name[..*at], &name[at + SEPARATOR.len()..]]
        }
    };
    lines.into_iter().map(|line| fitted_middle(line, LABEL_PT, width_pt)).collect()
}

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
            let lines = wrapped(name, names_width - GAP_PT);
            let first = rows.middle(place) - LINE_PT * (lines.len() - 1) as f64 / 2.0;
            for (line, text) in lines.iter().enumerate() {
                let y = first + LINE_PT * line as f64;
                scene.label((area.left - GAP_PT, y), Align::End, LABEL_PT, INK, text);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_takes_two_lines_before_it_is_shortened() {
        assert_eq!(wrapped("f16 · context 256", 90.0), ["f16 · context 256"]);
        let name = "smollm2-135m-instruct.q4_1 · f16 · context 2048";
        assert_eq!(wrapped(name, 100.0), ["smollm2-135m-instruct.q4_1", "f16 · context 2048"]);
        let narrow = wrapped(name, 60.0);
        assert!(narrow[0].contains('…') && narrow[0].ends_with("q4_1"), "{narrow:?}");
    }
}
