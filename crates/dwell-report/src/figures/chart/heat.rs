//! Values as shades, and what the shades stand for.

use super::axis::LABEL_PT;
use super::palette::INK;
use crate::figures::scene::{Align, Colour, Image, Rect, Scene, Shape, text_width};

/// The least value still differs from nothing.
const LEAST_SHADE: f64 = 0.18;
const BAR_PT: f64 = 42.0;
const BAR_HEIGHT_PT: f64 = 6.0;
const GAP_PT: f64 = 3.5;
const STEPS: usize = 24;

/// What the palest and the darkest shade stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::figures) struct HeatScale {
    pub(in crate::figures) least: f64,
    pub(in crate::figures) most: f64,
    is_logarithmic: bool,
}

impl HeatScale {
    /// From 0 to the greatest value.
    pub(in crate::figures) fn linear(values: impl IntoIterator<Item = f64>) -> Self {
        Self { least: 0.0, most: values.into_iter().fold(0.0, f64::max), is_logarithmic: false }
    }

    /// From the least value above 0 to the greatest.
    pub(in crate::figures) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let known = values.into_iter().filter(|value| *value > 0.0);
        let (least, most) =
            known.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)));
        Self { least: if most > 0.0 { least } else { 0.0 }, most, is_logarithmic: true }
    }

    /// How dark a value is: 0 for nothing, else from the least shade to 1.
    pub(in crate::figures) fn darkness(&self, value: f64) -> f64 {
        if value <= 0.0 || self.most <= 0.0 {
            return 0.0;
        }
        let share = match self.is_logarithmic {
            true if self.most > self.least => (value / self.least).ln() / (self.most / self.least).ln(),
            true => 1.0,
            false => value / self.most,
        };
        LEAST_SHADE + (1.0 - LEAST_SHADE) * share
    }
}

/// Draws a bar of the shades at a place of the legend, with what its ends stand for, and gives where it ends.
pub(in crate::figures) fn shade_bar(
    scene: &mut Scene,
    (left, y): (f64, f64),
    title: &str,
    colour: Colour,
    ends: [String; 2],
) -> f64 {
    let [least, most] = ends;
    let mut x = left;
    let mut say = |scene: &mut Scene, text: &str| {
        scene.label((x, y), Align::Begin, LABEL_PT, INK, text);
        x += text_width(text, LABEL_PT) + GAP_PT;
        x
    };
    say(scene, title);
    let from = say(scene, &least);
    let place =
        Rect { left: from, top: y - BAR_HEIGHT_PT / 2.0, right: from + BAR_PT, bottom: y + BAR_HEIGHT_PT / 2.0 };
    let shade = |step: usize| {
        let share = step as f64 / (STEPS - 1) as f64;
        colour.tint(LEAST_SHADE + (1.0 - LEAST_SHADE) * share)
    };
    scene.add(Shape::Image(Image { place, columns: STEPS, pixels: (0..STEPS).map(shade).collect() }));
    scene.label((place.right + GAP_PT, y), Align::Begin, LABEL_PT, INK, &most);
    place.right + GAP_PT + text_width(&most, LABEL_PT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_white_and_the_most_is_the_colour_itself() {
        let scale = HeatScale::logarithmic([0.0, 10.0, 1000.0]);
        assert_eq!((scale.least, scale.most), (10.0, 1000.0));
        assert_eq!([0.0, 10.0, 1000.0].map(|value| scale.darkness(value)), [0.0, LEAST_SHADE, 1.0]);
        assert!((scale.darkness(100.0) - (1.0 + LEAST_SHADE) / 2.0).abs() < 1e-9);
        assert_eq!(HeatScale::linear([4.0]).darkness(4.0), 1.0);
        assert_eq!(HeatScale::logarithmic([]).darkness(1.0), 0.0);
    }
}
