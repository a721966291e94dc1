//! Where the classes of suitability begin on axes of time.
//!
//! Classes count steps at a set speed: 10 s at 20 tokens/s are 200 steps, whatever time the recording took for them. In
//! seconds of the recording a threshold is therefore a range: the least and the most that so many steps took.

use super::chart::axis::LABEL_PT;
use super::chart::palette::{MUTED, REFERENCE};
use super::chart::plot::Plot;
use super::scene::{Align, Rect, Scene, text_width};
use crate::page::RunPage;

/// Room above a plot for the names of the lines.
pub(super) const THRESHOLDS_PT: f64 = 9.0;

/// A threshold on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    /// Class and quantile that it is of.
    pub(super) name: &'static str,
    pub(super) least_s: f64,
    pub(super) most_s: f64,
}

/// At the speed of the classes.
pub(super) fn thresholds(run: &RunPage) -> Vec<Threshold> {
    let threshold = |(name, time_s)| Threshold { name, least_s: time_s, most_s: time_s };
    named(run).map(threshold).to_vec()
}

/// In seconds of the recording; those that it was long enough for.
pub(super) fn recorded_thresholds(run: &RunPage) -> Vec<Threshold> {
    let Some(tokens_per_s) = run.thresholds.at_tokens_per_s else { return thresholds(run) };
    let recorded = named(run).map(|(name, time_s)| {
        let (least_s, most_s) = run.timeline.tokens.times_of_steps((time_s * tokens_per_s).ceil() as u64)?;
        Some(Threshold { name, least_s, most_s })
    });
    recorded.into_iter().flatten().collect()
}

fn named(run: &RunPage) -> [(&'static str, f64); 2] {
    [("medium (p50)", run.thresholds.medium_retention_s), ("high (p99)", run.thresholds.high_retention_s)]
}

/// Dashed lines, or bands between two times, named above the plot.
pub(super) fn draw_thresholds(scene: &mut Scene, plot: &Plot, thresholds: &[Threshold]) {
    let Rect { left, top, right, bottom } = plot.area;
    let mut taken_to = left;
    for threshold in thresholds {
        let (from, to) = (plot.x(threshold.least_s), plot.x(threshold.most_s));
        if to - from > 1.0 {
            scene.rect(Rect { left: from, top, right: to, bottom }, MUTED.tint(0.12));
        }
        scene.line(&[(from, top - THRESHOLDS_PT), (from, bottom)], REFERENCE);
        let width = text_width(threshold.name, LABEL_PT);
        let at = top - THRESHOLDS_PT / 2.0 - 0.5;
        // Before its line, unless another name is there.
        if from - width - 4.0 >= taken_to {
            scene.label((from - 2.0, at), Align::End, LABEL_PT, MUTED, threshold.name);
            taken_to = from + 2.0;
        } else if from + width + 2.0 <= right + 8.0 {
            scene.label((from + 2.0, at), Align::Begin, LABEL_PT, MUTED, threshold.name);
            taken_to = from + width + 6.0;
        }
    }
}
