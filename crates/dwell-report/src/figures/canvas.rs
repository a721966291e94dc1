//! Drawing in pixels: the few shapes that the figures are made of.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use crate::text::wrapped;

/// What drawing to memory can say.
pub(super) type DrawingError = DrawingAreaErrorKind<std::io::Error>;
pub(super) type Drawn = Result<(), DrawingError>;

/// plotters writes a font size of `size / 1.24` into the file.
const FONT_SCALE: f64 = 1.24;
const WIDTH: i32 = 560;
/// Around everything.
pub(super) const MARGIN: i32 = 14;
/// Below a plot, for ticks and what they are of.
pub(super) const AXIS_HEIGHT: i32 = 44;
const TITLE_CHARS: usize = 66;
const CAPTION_CHARS: usize = 84;
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(222, 222, 222);

/// Size of text in pixels.
#[derive(Clone, Copy)]
pub(super) enum Font {
    Title,
    Heading,
    Body,
    Small,
}

impl Font {
    fn pixels(self) -> f64 {
        match self {
            Font::Title => 15.0,
            Font::Heading | Font::Body => 12.0,
            Font::Small => 11.0,
        }
    }

    fn line_height(self) -> i32 {
        if matches!(self, Font::Title) { 20 } else { 14 }
    }
}

/// Where the text stands, seen from its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// A white sheet.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl<'a> Canvas<'a> {
    fn new(svg: &'a mut String, width: i32, height: i32) -> Result<Self, DrawingError> {
        let size = (u32::try_from(width).unwrap_or(1), u32::try_from(height).unwrap_or(1));
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        Ok(Self { area })
    }

    /// Text whose middle line is at `at`.
    pub(super) fn text(&self, at: (i32, i32), font: Font, anchor: Anchor, colour: RGBColor, text: &str) -> Drawn {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let desc = FontDesc::new(FontFamily::SansSerif, font.pixels() * FONT_SCALE, FontStyle::Normal);
        let desc = if matches!(font, Font::Title | Font::Heading) { desc.style(FontStyle::Bold) } else { desc };
        let style = TextStyle::from(desc).color(&colour).pos(Pos::new(horizontal, VPos::Center));
        self.area.draw_text(text, &style, at)
    }

    pub(super) fn line(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) -> Drawn {
        self.area.draw(&PathElement::new([from, to], colour.stroke_width(width)))
    }

    pub(super) fn bar(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn {
        self.area.draw(&Rectangle::new([from, to], colour.filled()))
    }

    /// A dot, filled or a ring.
    pub(super) fn dot(&self, at: (i32, i32), colour: RGBColor, is_filled: bool) -> Drawn {
        if is_filled {
            return self.area.draw(&Circle::new(at, 4, colour.filled()));
        }
        self.area.draw(&Circle::new(at, 4, WHITE.filled()))?;
        self.area.draw(&Circle::new(at, 4, colour.stroke_width(2)))
    }

    /// Ticks, with lines through the plot from `top` to `bottom`, and what the axis is of.
    pub(super) fn axis(&self, axis: &Axis, label: &str, top: i32, bottom: i32) -> Drawn {
        for (x, text) in axis.ticks() {
            self.line((x, top), (x, bottom), FAINT, 1)?;
            self.text((x, bottom + 10), Font::Small, Anchor::Middle, INK, &text)?;
        }
        self.text((axis.middle(), bottom + 28), Font::Body, Anchor::Middle, INK, label)
    }

    /// Lines of text below each other, the middle of the first one at `at`.
    fn paragraph(&self, at: (i32, i32), font: Font, lines: &[String]) -> Drawn {
        for (index, line) in lines.iter().enumerate() {
            self.text((at.0, at.1 + font.line_height() * index as i32), font, Anchor::Left, INK, line)?;
        }
        Ok(())
    }
}

/// A figure: a title, a body of this height, a caption. The body is told where it begins.
pub(super) fn figure(
    title: &str,
    caption: &str,
    body_height: i32,
    draw_body: impl FnOnce(&Canvas<'_>, i32) -> Drawn,
) -> Result<String, DrawingError> {
    let (title, caption) = (wrapped(title, TITLE_CHARS), wrapped(caption, CAPTION_CHARS));
    let (title_line, caption_line) = (Font::Title.line_height(), Font::Small.line_height());
    let top = MARGIN + title_line * title.len() as i32;
    let caption_top = top + body_height + caption_line;
    let height = caption_top + caption_line * caption.len() as i32 + MARGIN / 2;
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, WIDTH, height)?;
        canvas.paragraph((MARGIN, MARGIN + title_line / 2), Font::Title, &title)?;
        draw_body(&canvas, top)?;
        canvas.paragraph((MARGIN, caption_top), Font::Small, &caption)?;
        canvas.area.present()?;
    }
    Ok(svg)
}

/// Colours that people with any kind of colour blindness can tell apart (Okabe and Ito).
pub(super) fn colour_of(region_type: &str) -> RGBColor {
    match region_type {
        "weight" => RGBColor(0, 114, 178),
        "kv_cache" => RGBColor(213, 94, 0),
        "recurrent_state" => RGBColor(230, 159, 0),
        "activation" => RGBColor(0, 158, 115),
        "work_buffer" => RGBColor(86, 180, 233),
        "runtime" => RGBColor(204, 121, 167),
        _ => RGBColor(110, 110, 110),
    }
}
