//! One chart for everything that is compared between groups: a block per group, a row per region type, dots with
//! their confidence intervals, and the numbers beside them.

use dwell_analysis::statistics::Summary;
use plotters::style::RGBColor;

use super::axis::{Axis, Unit};
use super::canvas::{AXIS_HEIGHT, Anchor, Canvas, DrawingError, Drawn, Font, INK, MARGIN, figure};

const PLOT_LEFT: i32 = 100;
const PLOT_RIGHT: i32 = 385;
const VALUES_AT: i32 = 396;
const ROW_HEIGHT: i32 = 18;
const HEADING_HEIGHT: i32 = 20;
const BLOCK_GAP: i32 = 6;
const LEGEND_HEIGHT: i32 = 20;

/// One figure of a row.
pub(super) struct Mark {
    pub(super) summary: Summary,
    /// A ring rather than a dot.
    pub(super) is_ring: bool,
}

/// One line of a block.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) colour: RGBColor,
    pub(super) marks: Vec<Mark>,
}

/// A group.
pub(super) struct Block {
    pub(super) heading: String,
    pub(super) rows: Vec<Row>,
}

/// A whole chart.
pub(super) struct DotChart {
    pub(super) title: String,
    pub(super) axis_label: &'static str,
    pub(super) unit: Unit,
    /// What dots are and, if there are any, rings.
    pub(super) legend: Vec<&'static str>,
    pub(super) blocks: Vec<Block>,
    pub(super) caption: String,
}

impl DotChart {
    /// The chart as SVG.
    pub(super) fn svg(&self) -> Result<String, DrawingError> {
        let plot_height = self.blocks.iter().map(Block::height).sum::<i32>();
        let axis = Axis::new(self.unit, &self.values(), PLOT_LEFT, PLOT_RIGHT);
        figure(&self.title, &self.caption, LEGEND_HEIGHT + plot_height + AXIS_HEIGHT, |canvas, top| {
            self.draw_legend(canvas, top + LEGEND_HEIGHT / 2)?;
            let mut top = top + LEGEND_HEIGHT;
            let bottom = top + plot_height;
            canvas.axis(&axis, self.axis_label, top, bottom)?;
            canvas.line((PLOT_LEFT, bottom), (PLOT_RIGHT, bottom), INK, 1)?;
            for block in &self.blocks {
                block.draw(canvas, &axis, self.unit, top)?;
                top += block.height();
            }
            Ok(())
        })
    }

    fn values(&self) -> Vec<f64> {
        let marks = self.blocks.iter().flat_map(|block| &block.rows).flat_map(|row| &row.marks);
        // An interval that reaches below every value would stretch a logarithmic axis without end.
        marks.flat_map(|mark| [mark.summary.mean, mark.summary.ci95_high.unwrap_or(mark.summary.mean)]).collect()
    }

    fn draw_legend(&self, canvas: &Canvas<'_>, y: i32) -> Drawn {
        let mut x = MARGIN + 4;
        for (index, name) in self.legend.iter().enumerate() {
            canvas.dot((x, y), INK, index == 0)?;
            canvas.text((x + 10, y), Font::Small, Anchor::Left, INK, name)?;
            x += 34 + 6 * name.chars().count() as i32;
        }
        Ok(())
    }
}

impl Block {
    fn height(&self) -> i32 {
        HEADING_HEIGHT + ROW_HEIGHT * self.rows.len() as i32 + BLOCK_GAP
    }

    fn draw(&self, canvas: &Canvas<'_>, axis: &Axis, unit: Unit, top: i32) -> Drawn {
        canvas.text((MARGIN, top + HEADING_HEIGHT / 2), Font::Heading, Anchor::Left, INK, &self.heading)?;
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + HEADING_HEIGHT + ROW_HEIGHT * index as i32 + ROW_HEIGHT / 2;
            canvas.text((PLOT_LEFT - 10, y), Font::Body, Anchor::Right, INK, &row.label)?;
            for mark in &row.marks {
                mark.draw(canvas, axis, row.colour, y)?;
            }
            canvas.text((VALUES_AT, y), Font::Small, Anchor::Left, INK, &row.values_text(unit))?;
        }
        Ok(())
    }
}

impl Mark {
    fn draw(&self, canvas: &Canvas<'_>, axis: &Axis, colour: RGBColor, y: i32) -> Drawn {
        let Some(x) = axis.pixel(self.summary.mean) else { return Ok(()) };
        if let Some((low, high)) = self.summary.ci95_low.zip(self.summary.ci95_high) {
            let (low, high) = (axis.pixel_or_left(low), axis.pixel_or_left(high));
            canvas.line((low, y), (high, y), colour, 1)?;
            for end in [low, high] {
                canvas.line((end, y - 3), (end, y + 3), colour, 1)?;
            }
        }
        canvas.dot((x, y), colour, !self.is_ring)
    }
}

impl Row {
    /// The means; of a single one also half the width of its interval, for which there is no room beside two.
    fn values_text(&self, unit: Unit) -> String {
        let means: Vec<String> = self.marks.iter().map(|mark| unit.text(mark.summary.mean)).collect();
        match self.marks.as_slice() {
            [Mark { summary: Summary { mean, ci95_high: Some(high), .. }, .. }] if high > mean => {
                format!("{} ± {}", means.join(""), unit.text(high - mean))
            }
            _ => means.join(" · "),
        }
    }
}
