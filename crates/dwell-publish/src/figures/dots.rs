//! One chart for everything that is compared between groups: a block per group, a row per region type, dots with
//! their confidence intervals, and the numbers beside them.

use dwell_analysis::statistics::Summary;
use plotters::style::RGBColor;

use super::axis::{Axis, Unit};
use super::canvas::{Anchor, Canvas, DrawingError, Drawn, FAINT, Font, INK, LINE_HEIGHT, wrapped};

const WIDTH: i32 = 560;
const PLOT_LEFT: i32 = 100;
const PLOT_RIGHT: i32 = 385;
const VALUES_AT: i32 = 396;
const MARGIN: i32 = 14;
const ROW_HEIGHT: i32 = 18;
const HEADING_HEIGHT: i32 = 20;
const BLOCK_GAP: i32 = 6;
const LEGEND_HEIGHT: i32 = 20;
const AXIS_HEIGHT: i32 = 44;
const CAPTION_CHARS: usize = 84;
const TITLE_CHARS: usize = 66;
const TITLE_HEIGHT: i32 = 20;

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
        let (title, caption) = (wrapped(&self.title, TITLE_CHARS), wrapped(&self.caption, CAPTION_CHARS));
        let title_height = MARGIN + TITLE_HEIGHT * title.len() as i32;
        let plot_top = title_height + LEGEND_HEIGHT;
        let plot_bottom = plot_top + self.blocks.iter().map(Block::height).sum::<i32>();
        let caption_top = plot_bottom + AXIS_HEIGHT + LINE_HEIGHT;
        let height = caption_top + LINE_HEIGHT * caption.len() as i32 + MARGIN / 2;
        let axis = Axis::new(self.unit, &self.values(), PLOT_LEFT, PLOT_RIGHT);
        let mut svg = String::new();
        {
            let canvas = Canvas::new(&mut svg, WIDTH, height)?;
            for (index, line) in title.iter().enumerate() {
                let y = MARGIN + TITLE_HEIGHT * index as i32 + TITLE_HEIGHT / 2;
                canvas.text((MARGIN, y), Font::Title, Anchor::Left, INK, line)?;
            }
            self.draw_legend(&canvas, title_height + LEGEND_HEIGHT / 2)?;
            self.draw_axis(&canvas, &axis, plot_top, plot_bottom)?;
            let mut top = plot_top;
            for block in &self.blocks {
                block.draw(&canvas, &axis, self.unit, top)?;
                top += block.height();
            }
            canvas.paragraph((MARGIN, caption_top), &caption)?;
            canvas.finish()?;
        }
        Ok(svg)
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

    fn draw_axis(&self, canvas: &Canvas<'_>, axis: &Axis, top: i32, bottom: i32) -> Drawn {
        for (x, text) in axis.ticks() {
            canvas.line((x, top), (x, bottom), FAINT, 1)?;
            canvas.text((x, bottom + 10), Font::Small, Anchor::Middle, INK, &text)?;
        }
        canvas.line((PLOT_LEFT, bottom), (PLOT_RIGHT, bottom), INK, 1)?;
        let middle = (PLOT_LEFT + PLOT_RIGHT) / 2;
        canvas.text((middle, bottom + 28), Font::Body, Anchor::Middle, INK, self.axis_label)
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
