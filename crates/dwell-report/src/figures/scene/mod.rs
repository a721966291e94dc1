//! What figures are made of: paths, text and images, in points from the upper left corner.
//!
//! SVG, PDF and PNG are written from the same shapes, so that they look the same.

mod font;
mod pdf;
mod png;
mod svg;

pub(super) use font::{cap_height, text_width};

/// Points in an inch.
pub(super) const POINTS_PER_INCH: f64 = 72.0;
/// Millimetres in an inch.
pub(super) const MM_PER_INCH: f64 = 25.4;

/// A place, in points.
pub(super) type Point = (f64, f64);

/// A colour: red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8, pub(super) u8, pub(super) u8);

impl Colour {
    pub(super) const WHITE: Self = Self(255, 255, 255);

    /// Its shade on white paper: 0 is white, 1 the colour itself. Figures have no transparency, which printers may refuse.
    pub(super) fn tint(self, darkness: f64) -> Self {
        let mix = |channel: u8| (255.0 + (f64::from(channel) - 255.0) * darkness.clamp(0.0, 1.0)).round() as u8;
        Self(mix(self.0), mix(self.1), mix(self.2))
    }

    /// Two shades in one place: what each takes from the paper is added.
    pub(super) fn blended(self, other: Self) -> Self {
        let mix = |one: u8, other: u8| (u16::from(one) + u16::from(other)).saturating_sub(255) as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    fn css(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width_pt: f64,
    /// Lengths of dashes and gaps; none for a whole line.
    pub(super) dashes_pt: &'static [f64],
}

impl Stroke {
    pub(super) const fn solid(colour: Colour, width_pt: f64) -> Self {
        Self { colour, width_pt, dashes_pt: &[] }
    }
}

/// A part of an outline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Segment {
    Move(Point),
    Line(Point),
    Curve(Point, Point, Point),
    Close,
}

/// Where text stands, seen from its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Begin,
    Middle,
    End,
}

/// A rectangle, in points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// Text on one line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    /// On the baseline.
    pub(super) at: Point,
    pub(super) align: Align,
    pub(super) size_pt: f64,
    pub(super) colour: Colour,
    /// Whether it is read upwards.
    pub(super) is_upright: bool,
    pub(super) text: String,
}

impl Text {
    /// Where its first glyph begins.
    fn begin(&self) -> Point {
        let width = text_width(&self.text, self.size_pt);
        let back = match self.align {
            Align::Begin => 0.0,
            Align::Middle => width / 2.0,
            Align::End => width,
        };
        if self.is_upright { (self.at.0, self.at.1 + back) } else { (self.at.0 - back, self.at.1) }
    }
}

/// Pixels that fill a rectangle, row by row from the upper left one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Image {
    pub(super) place: Rect,
    pub(super) columns: usize,
    pub(super) pixels: Vec<Colour>,
}

impl Image {
    fn rows(&self) -> usize {
        self.pixels.len() / self.columns.max(1)
    }

    fn rgb(&self) -> Vec<u8> {
        self.pixels.iter().flat_map(|pixel| [pixel.0, pixel.1, pixel.2]).collect()
    }
}

/// One thing that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Path { outline: Vec<Segment>, fill: Option<Colour>, stroke: Option<Stroke> },
    Text(Text),
    Image(Image),
}

/// A sheet with shapes, the later above the earlier.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub(super) width_mm: f64,
    pub(super) height_mm: f64,
    shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn new(width_mm: f64, height_mm: f64) -> Self {
        Self { width_mm, height_mm, shapes: Vec::new() }
    }

    /// All of the sheet.
    pub(super) fn area(&self) -> Rect {
        let points = |mm: f64| mm / MM_PER_INCH * POINTS_PER_INCH;
        Rect { left: 0.0, top: 0.0, right: points(self.width_mm), bottom: points(self.height_mm) }
    }

    pub(super) fn add(&mut self, shape: Shape) {
        self.shapes.push(shape);
    }

    /// A line through points.
    pub(super) fn line(&mut self, points: &[Point], stroke: Stroke) {
        if points.len() > 1 {
            self.add(Shape::Path { outline: outline(points), fill: None, stroke: Some(stroke) });
        }
    }

    /// A filled area with these corners.
    pub(super) fn fill(&mut self, corners: &[Point], colour: Colour) {
        self.add(Shape::Path { outline: closed(corners), fill: Some(colour), stroke: None });
    }

    pub(super) fn rect(&mut self, rect: Rect, colour: Colour) {
        let Rect { left, top, right, bottom } = rect;
        self.fill(&[(left, top), (right, top), (right, bottom), (left, bottom)], colour);
    }

    /// Text whose capital letters are centred on the height of its place.
    pub(super) fn label(&mut self, at: Point, align: Align, size_pt: f64, colour: Colour, text: &str) {
        let at = (at.0, at.1 + cap_height(size_pt) / 2.0);
        self.add(Shape::Text(Text { at, align, size_pt, colour, is_upright: false, text: text.to_owned() }));
    }

    /// Text that is read upwards, centred on its place.
    pub(super) fn upright(&mut self, at: Point, align: Align, size_pt: f64, colour: Colour, text: &str) {
        let at = (at.0 + cap_height(size_pt) / 2.0, at.1);
        self.add(Shape::Text(Text { at, align, size_pt, colour, is_upright: true, text: text.to_owned() }));
    }

    #[cfg(test)]
    pub(super) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }
}

/// A line through points.
pub(super) fn outline(points: &[Point]) -> Vec<Segment> {
    let segment =
        |(place, &point): (usize, &Point)| if place == 0 { Segment::Move(point) } else { Segment::Line(point) };
    points.iter().enumerate().map(segment).collect()
}

/// The same, back to the first.
pub(super) fn closed(points: &[Point]) -> Vec<Segment> {
    let mut outline = outline(points);
    outline.push(Segment::Close);
    outline
}
