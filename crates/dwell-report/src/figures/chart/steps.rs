//! Values that hold from one moment to the next: lines and stacked areas with steps.

use super::plot::Plot;
use crate::figures::scene::{Colour, Point, Scene};

/// The corners of values that hold between edges; one edge more than values.
pub(in crate::figures) fn corners(plot: &Plot, edges: &[f64], values: &[f64]) -> Vec<Point> {
    let spans = edges.windows(2).zip(values);
    spans.flat_map(|(span, &value)| [plot.at(span[0], value), plot.at(span[1], value)]).collect()
}

/// Draws the area between two rows of values.
pub(in crate::figures) fn fill_between(
    scene: &mut Scene,
    plot: &Plot,
    edges: &[f64],
    low: &[f64],
    high: &[f64],
    colour: Colour,
) {
    let mut outline = corners(plot, edges, high);
    outline.extend(corners(plot, edges, low).into_iter().rev());
    outline.dedup();
    if outline.len() > 2 {
        scene.fill(&outline, colour);
    }
}

/// Adds values to what is stacked already, and gives what was there before.
pub(in crate::figures) fn stacked_on(stack: &mut [f64], values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let below = stack.to_vec();
    stack.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_stacked_on_those_before() {
        let mut stack = vec![1.0, 2.0];
        assert_eq!(stacked_on(&mut stack, [3.0, 4.0]), [1.0, 2.0]);
        assert_eq!(stack, [4.0, 6.0]);
    }
}
