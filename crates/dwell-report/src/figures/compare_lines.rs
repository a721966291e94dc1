//! A chart of bytes over tokens: lines and dots of several series, with a legend.

use plotters::style::RGBColor;

use super::axis::{Axis, Unit};
use super::canvas::{AXIS_HEIGHT, Anchor, Canvas, DrawingError, Drawn, Font, INK, figure};

const LEFT: i32 = 84;
const RIGHT: i32 = 540;
const PLOT_HEIGHT: i32 = 260;
const LEGEND_ROW: i32 = 16;
const GRID: RGBColor = RGBColor(222, 222, 222);

/// What a series looks like.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Look {
    /// A line through its points.
    Line,
    /// A thin line, for what should be.
    Theory,
    /// Its points alone.
    Dots,
}

/// One series.
pub(super) struct LineSeries {
    /// Text of the legend; a series without one belongs to the one before it.
    pub(super) name: Option<String>,
    pub(super) colour: RGBColor,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
}

/// A whole chart.
pub(super) struct LineChart {
    pub(super) title: &'static str,
    pub(super) x_label: &'static str,
    pub(super) series: Vec<LineSeries>,
    pub(super) caption: String,
}

/// Colours that people with any kind of colour blindness can tell apart (Okabe and Ito), again from the first.
pub(super) fn colour_number(number: usize) -> RGBColor {
    const COLOURS: [RGBColor; 7] = [
        RGBColor(0, 114, 178),
        RGBColor(213, 94, 0),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(86, 180, 233),
        RGBColor(110, 110, 110),
    ];
    COLOURS[number % COLOURS.len()]
}

impl LineChart {
    /// The chart as SVG.
    pub(super) fn svg(&self) -> Result<String, DrawingError> {
        let values = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            self.series.iter().flat_map(|series| &series.points).map(of).collect()
        };
        let legend_height = LEGEND_ROW * self.series.iter().filter(|series| series.name.is_some()).count() as i32;
        figure(self.title, &self.caption, legend_height + PLOT_HEIGHT + AXIS_HEIGHT, |canvas, top| {
            self.draw_legend(canvas, top)?;
            let (top, bottom) = (top + legend_height, top + legend_height + PLOT_HEIGHT);
            let across = Axis::new(Unit::Tokens, &values(|point| point.0), LEFT, RIGHT);
            let up = Axis::new(Unit::LinearBytes, &values(|point| point.1), bottom, top + LEGEND_ROW);
            canvas.axis(&across, self.x_label, top, bottom)?;
            for (y, text) in up.ticks() {
                canvas.line((LEFT, y), (RIGHT, y), GRID, 1)?;
                canvas.text((LEFT - 8, y), Font::Small, Anchor::Right, INK, &text)?;
            }
            canvas.line((LEFT, bottom), (RIGHT, bottom), INK, 1)?;
            self.series.iter().try_for_each(|series| series.draw(canvas, &across, &up))
        })
    }

    fn draw_legend(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        let named = self.series.iter().filter_map(|series| Some((series.name.as_ref()?, series)));
        for (row, (name, series)) in named.enumerate() {
            let y = top + LEGEND_ROW / 2 + LEGEND_ROW * row as i32;
            if series.look == Look::Dots {
                canvas.dot((LEFT + 8, y), series.colour, true)?;
            } else {
                canvas.line((LEFT, y), (LEFT + 16, y), series.colour, series.look.width())?;
            }
            canvas.text((LEFT + 24, y), Font::Small, Anchor::Left, INK, name)?;
        }
        Ok(())
    }
}

impl Look {
    fn width(self) -> u32 {
        if self == Look::Theory { 1 } else { 2 }
    }
}

impl LineSeries {
    fn draw(&self, canvas: &Canvas<'_>, across: &Axis, up: &Axis) -> Drawn {
        let places: Vec<(i32, i32)> =
            self.points.iter().map(|&(x, y)| (across.pixel_or_left(x), up.pixel_or_left(y))).collect();
        if self.look == Look::Dots {
            return places.iter().try_for_each(|&place| canvas.dot(place, self.colour, true));
        }
        places.windows(2).try_for_each(|pair| canvas.line(pair[0], pair[1], self.colour, self.look.width()))
    }
}
