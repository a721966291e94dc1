//! Marks at single values: dots, bars of intervals, arrows of bounds.

use crate::figures::scene::{Colour, Point, Scene, Segment, Shape, Stroke, closed};

/// Length of the head of an arrow.
const HEAD_PT: f64 = 3.0;

/// The shape of a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::figures) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Marker {
    fn outline(self, (x, y): Point, radius: f64) -> Vec<Segment> {
        match self {
            Self::Circle => circle((x, y), radius),
            Self::Square => {
                let half = radius * 0.88;
                closed(&[(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)])
            }
            Self::Triangle => {
                let side = radius * 1.15;
                closed(&[(x, y - side), (x + side, y + side * 0.8), (x - side, y + side * 0.8)])
            }
            Self::Diamond => {
                let half = radius * 1.25;
                closed(&[(x, y - half), (x + half, y), (x, y + half), (x - half, y)])
            }
        }
    }

    /// The mark of a value.
    pub(in crate::figures) fn draw(self, scene: &mut Scene, at: Point, radius: f64, colour: Colour) {
        scene.add(Shape::Path { outline: self.outline(at, radius), fill: Some(colour), stroke: None });
    }

    /// The mark of what is not a value itself, such as a bound: hollow.
    pub(in crate::figures) fn draw_hollow(self, scene: &mut Scene, at: Point, radius: f64, colour: Colour) {
        let stroke = Some(Stroke::solid(colour, 0.9));
        scene.add(Shape::Path { outline: self.outline(at, radius), fill: Some(Colour::WHITE), stroke });
    }
}

/// Four curves that differ from a circle by less than a thousandth of its radius.
fn circle((x, y): Point, radius: f64) -> Vec<Segment> {
    let bend = radius * 0.552;
    vec![
        Segment::Move((x + radius, y)),
        Segment::Curve((x + radius, y + bend), (x + bend, y + radius), (x, y + radius)),
        Segment::Curve((x - bend, y + radius), (x - radius, y + bend), (x - radius, y)),
        Segment::Curve((x - radius, y - bend), (x - bend, y - radius), (x, y - radius)),
        Segment::Curve((x + bend, y - radius), (x + radius, y - bend), (x + radius, y)),
        Segment::Close,
    ]
}

/// An arrow from a bound to where the value lies, somewhere beyond.
pub(in crate::figures) fn arrow(scene: &mut Scene, from: Point, to: Point, stroke: Stroke) {
    let length = (to.0 - from.0).hypot(to.1 - from.1).max(f64::MIN_POSITIVE);
    let (along_x, along_y) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
    let back = |side: f64| {
        let half = side * HEAD_PT * 0.6;
        (to.0 - along_x * HEAD_PT - along_y * half, to.1 - along_y * HEAD_PT + along_x * half)
    };
    scene.line(&[from, to], stroke);
    scene.line(&[back(1.0), to, back(-1.0)], Stroke { dashes_pt: &[], ..stroke });
}

/// An interval with its ends, upright or level.
pub(in crate::figures) fn interval(scene: &mut Scene, from: Point, to: Point, colour: Colour) {
    const HALF_PT: f64 = 1.6;
    let stroke = Stroke::solid(colour, 0.7);
    let is_upright = (from.0 - to.0).abs() < (from.1 - to.1).abs();
    scene.line(&[from, to], stroke);
    for (x, y) in [from, to] {
        let end = if is_upright { [(x - HALF_PT, y), (x + HALF_PT, y)] } else { [(x, y - HALF_PT), (x, y + HALF_PT)] };
        scene.line(&end, stroke);
    }
}
