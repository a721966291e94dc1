//! Phases of a run above plots over time.

use super::chart::axis::LABEL_PT;
use super::chart::palette::{MUTED, REFERENCE};
use super::chart::plot::Plot;
use super::scene::{Align, Rect, Scene, text_width};
use crate::page::Timeline;

/// Room above a plot for the names.
pub(super) const PHASES_PT: f64 = 9.0;

/// Lines where phases begin, named above the plot where there is room.
pub(super) fn draw_phases(scene: &mut Scene, plot: &Plot, timeline: &Timeline) {
    let Rect { left, top, right, bottom } = plot.area;
    for phase in &timeline.phases {
        let (begin, end) = (plot.x(phase.begin_s), plot.x(phase.end_s));
        if begin > left + 1.0 && begin < right - 1.0 {
            scene.line(&[(begin, top - PHASES_PT), (begin, bottom)], REFERENCE);
        }
        let name = phase.name.replace('_', " ");
        if end - begin > text_width(&name, LABEL_PT) + 4.0 {
            scene.label((begin + 2.0, top - PHASES_PT / 2.0), Align::Begin, LABEL_PT, MUTED, &name);
        }
    }
}
