//! What lines, areas and marks stand for, in rows above the plots.

use super::axis::LABEL_PT;
use super::mark::{Marker, arrow};
use super::palette::{INK, MUTED};
use super::plot::fitted;
use crate::figures::scene::{Align, Colour, Rect, Scene, Stroke, text_width};

const ROW_PT: f64 = 10.0;
const SAMPLE_PT: f64 = 14.0;
const GAP_PT: f64 = 3.5;
const ENTRY_GAP_PT: f64 = 9.0;
/// Between the rows and the plot.
const BELOW_PT: f64 = 4.0;

/// What is shown beside a title.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::figures) enum Sample {
    Line(Stroke),
    MarkedLine(Stroke, Marker),
    Area(Colour),
    Mark(Marker, Colour),
    /// A ring: what had not ended.
    Ring,
    /// An arrow to the right: at least.
    AtLeast,
    /// An arrow upwards from a hollow mark: at least, on a vertical axis.
    AtLeastUpward,
    /// An arrow to the left: less.
    Less,
}

/// One thing that is drawn, with its title.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::figures) struct Entry {
    pub(in crate::figures) title: String,
    pub(in crate::figures) sample: Sample,
}

impl Entry {
    pub(in crate::figures) fn new(title: impl Into<String>, sample: Sample) -> Self {
        Self { title: title.into(), sample }
    }

    fn width(&self) -> f64 {
        SAMPLE_PT + GAP_PT + text_width(&self.title, LABEL_PT)
    }
}

/// Draws the entries at the top of an area, and gives what is left of it.
pub(in crate::figures) fn legend(scene: &mut Scene, area: Rect, entries: &[Entry]) -> Rect {
    let (mut x, mut row) = (area.left, 0);
    if entries.is_empty() {
        return area;
    }
    for entry in entries {
        if x > area.left && x + entry.width() > area.right {
            (x, row) = (area.left, row + 1);
        }
        let y = area.top + ROW_PT * (f64::from(row) + 0.5);
        draw_sample(scene, entry.sample, x, y);
        let room = area.right - x - SAMPLE_PT - GAP_PT;
        let title = fitted(&entry.title, LABEL_PT, room);
        scene.label((x + SAMPLE_PT + GAP_PT, y), Align::Begin, LABEL_PT, INK, &title);
        x += entry.width() + ENTRY_GAP_PT;
    }
    Rect { top: area.top + ROW_PT * f64::from(row + 1) + BELOW_PT, ..area }
}

fn draw_sample(scene: &mut Scene, sample: Sample, x: f64, y: f64) {
    let (end, middle) = (x + SAMPLE_PT, (x + SAMPLE_PT / 2.0, y));
    match sample {
        Sample::Line(stroke) => scene.line(&[(x, y), (end, y)], stroke),
        Sample::MarkedLine(stroke, marker) => {
            scene.line(&[(x, y), (end, y)], stroke);
            marker.draw(scene, middle, 2.0, stroke.colour);
        }
        Sample::Area(colour) => {
            scene.rect(Rect { left: x + 3.0, top: y - 3.0, right: end, bottom: y + 3.0 }, colour);
        }
        Sample::Mark(marker, colour) => marker.draw(scene, middle, 2.2, colour),
        Sample::Ring => Marker::Circle.draw_hollow(scene, middle, 2.0, MUTED),
        Sample::AtLeast => arrow(scene, (x, y), (end, y), Stroke::solid(MUTED, 0.9)),
        Sample::AtLeastUpward => {
            arrow(scene, (middle.0, y + 3.0), (middle.0, y - 4.5), Stroke::solid(MUTED, 0.9));
            Marker::Circle.draw_hollow(scene, (middle.0, y + 3.0), 1.6, MUTED);
        }
        Sample::Less => arrow(scene, (end, y), (x, y), Stroke::solid(MUTED, 0.9)),
    }
}
