//! Where the classes of suitability begin on axes of time.
//!
//! Classes count steps at a set speed: 10 s at 20 tokens/s are 200 steps, whatever time the recording took for them. In
//! seconds of the recording a threshold is therefore a range: the least and the most that so many steps took.

use super::chart::axis::LABEL_PT;
use super::chart::palette::{MUTED, REFERENCE};
use super::chart::plot::Plot;
use super::scene::{Align, Rect, Scene, text_width};
use crate::page::RunPage;

/// A row of names of the lines.
const ROW_PT: f64 = 8.5;
/// Room above a plot for two rows of them.
pub(super) const THRESHOLDS_PT: f64 = 2.0 * ROW_PT;

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

/// Dashed lines, or bands between two times, each named above the plot.
pub(super) fn draw_thresholds(scene: &mut Scene, plot: &Plot, thresholds: &[Threshold]) {
    let Rect { left, top, right, bottom } = plot.area;
    let lines: Vec<(f64, f64)> =
        thresholds.iter().map(|threshold| (plot.x(threshold.least_s), text_width(threshold.name, LABEL_PT))).collect();
    for (threshold, name) in thresholds.iter().zip(names(&lines, left, right)) {
        let (from, to) = (plot.x(threshold.least_s), plot.x(threshold.most_s));
        if to - from > 1.0 {
            scene.rect(Rect { left: from, top, right: to, bottom }, MUTED.tint(0.12));
        }
        let row_top = top - ROW_PT * f64::from(name.row + 1);
        scene.line(&[(from, row_top), (from, bottom)], REFERENCE);
        scene.label((name.left, row_top + ROW_PT / 2.0), Align::Begin, LABEL_PT, MUTED, threshold.name);
    }
}

/// Where the name of a line stands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Name {
    left: f64,
    row: u8,
}

/// Between a line and its name.
const GAP_PT: f64 = 2.0;
/// What may stand out beyond a plot.
const OVERHANG_PT: f64 = 8.0;

/// Places of the names of lines at ascending `x`, each with the width of its name: before its line, behind it if there is no room
/// before, and a row higher if the name would meet the one before it. The line of a lower name ends below the upper row.
fn names(lines: &[(f64, f64)], left: f64, right: f64) -> Vec<Name> {
    let (mut taken_to, mut row) = (left - OVERHANG_PT, 0);
    let mut found = Vec::new();
    for &(x, width) in lines {
        let before = x - width - GAP_PT;
        let behind = x + GAP_PT;
        let fits_behind = behind + width <= right + OVERHANG_PT;
        let begin = match before >= taken_to || !fits_behind {
            true => before.max(left - OVERHANG_PT),
            false => behind,
        };
        if begin < taken_to {
            row += 1;
        }
        found.push(Name { left: begin, row });
        taken_to = begin.max(x) + if begin > x { width } else { GAP_PT };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_name_that_meets_no_other() {
        let far_apart = names(&[(100.0, 40.0), (300.0, 40.0)], 0.0, 370.0);
        assert_eq!(far_apart, [Name { left: 58.0, row: 0 }, Name { left: 258.0, row: 0 }]);
        let at_the_right = names(&[(297.0, 53.0), (345.0, 45.0)], 0.0, 370.0);
        assert_eq!(at_the_right, [Name { left: 242.0, row: 0 }, Name { left: 298.0, row: 1 }]);
        let at_the_left = names(&[(10.0, 53.0), (200.0, 45.0)], 0.0, 370.0);
        assert_eq!(at_the_left, [Name { left: 12.0, row: 0 }, Name { left: 153.0, row: 0 }]);
        let together = names(&[(10.0, 53.0), (12.0, 45.0)], 0.0, 370.0);
        assert_eq!(together[1].row, 1);
    }
}
