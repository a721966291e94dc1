//! The place where values are drawn, between its axes.

use super::axis::{Axis, LABEL_PT, Scale, TITLE_PT};
use super::palette::{AXIS, GRID, INK};
use crate::figures::scene::{Align, Point, Rect, Scene, cap_height, text_width};

/// Length of the mark of a tick.
const TICK_PT: f64 = 2.0;
/// Between a mark, its label and the title of the axis.
const GAP_PT: f64 = 2.5;
/// Least distance of two labels.
const LABEL_GAP_PT: f64 = 4.0;
/// From the edge of the sheet.
const EDGE_PT: f64 = 1.5;

/// Where values are drawn.
#[derive(Clone, Copy, Debug)]
pub(in crate::figures) struct Plot {
    pub(in crate::figures) area: Rect,
    x: Scale,
    y: Scale,
    is_downward: bool,
}

impl Plot {
    pub(in crate::figures) fn new(area: Rect, x: &Axis, y: &Axis) -> Self {
        Self { area, x: x.scale, y: y.scale, is_downward: false }
    }

    /// The same with values that grow downwards.
    pub(in crate::figures) fn downward(self) -> Self {
        Self { is_downward: true, ..self }
    }

    pub(in crate::figures) fn x(&self, value: f64) -> f64 {
        self.area.left + self.x.share(value) * self.area.width()
    }

    pub(in crate::figures) fn y(&self, value: f64) -> f64 {
        let height = self.y.share(value) * self.area.height();
        if self.is_downward { self.area.top + height } else { self.area.bottom - height }
    }

    pub(in crate::figures) fn at(&self, x: f64, y: f64) -> Point {
        (self.x(x), self.y(y))
    }

    /// Lines through the plot at the ticks of an axis, below what is drawn.
    pub(in crate::figures) fn draw_grid(&self, scene: &mut Scene, y: &Axis) {
        let Rect { left, right, .. } = self.area;
        for tick in &y.ticks {
            scene.line(&[(left, self.y(tick.value)), (right, self.y(tick.value))], GRID);
        }
    }

    /// The lower axis.
    pub(in crate::figures) fn draw_x(&self, scene: &mut Scene, axis: &Axis) {
        let Rect { left, right, bottom, .. } = self.area;
        self.draw_base(scene);
        let labels_at = bottom + TICK_PT + GAP_PT + cap_height(LABEL_PT) / 2.0;
        let mut free_from = f64::NEG_INFINITY;
        for tick in &axis.ticks {
            let (x, half) = (self.x(tick.value), text_width(&tick.label, LABEL_PT) / 2.0);
            scene.line(&[(x, bottom), (x, bottom + TICK_PT)], AXIS);
            if x - half >= free_from {
                scene.label((x, labels_at), Align::Middle, LABEL_PT, INK, &tick.label);
                free_from = x + half + LABEL_GAP_PT;
            }
        }
        let title_at = labels_at + cap_height(LABEL_PT) / 2.0 + GAP_PT + TITLE_PT / 2.0;
        scene.label(((left + right) / 2.0, title_at), Align::Middle, TITLE_PT, INK, &axis.title);
    }

    /// The line of the lower axis alone, above areas that cover it.
    pub(in crate::figures) fn draw_base(&self, scene: &mut Scene) {
        let Rect { left, right, bottom, .. } = self.area;
        scene.line(&[(left, bottom), (right, bottom)], AXIS);
    }

    /// The left axis, its title as far out as `left_width` says.
    pub(in crate::figures) fn draw_y(&self, scene: &mut Scene, axis: &Axis, left_width: f64) {
        let Rect { left, top, bottom, .. } = self.area;
        scene.line(&[(left, top), (left, bottom)], AXIS);
        for tick in &axis.ticks {
            let y = self.y(tick.value);
            scene.line(&[(left - TICK_PT, y), (left, y)], AXIS);
            scene.label((left - TICK_PT - GAP_PT, y), Align::End, LABEL_PT, INK, &tick.label);
        }
        let title_at = left - left_width + TITLE_PT / 2.0;
        scene.upright((title_at, (top + bottom) / 2.0), Align::Middle, TITLE_PT, INK, &axis.title);
    }
}

/// What an axis takes below a plot.
fn bottom_height(axis: &Axis) -> f64 {
    let title = if axis.title.is_empty() { 0.0 } else { GAP_PT + TITLE_PT };
    TICK_PT + GAP_PT + cap_height(LABEL_PT) + title + EDGE_PT
}

/// What an axis takes at the left of a plot.
pub(in crate::figures) fn left_width(axis: &Axis) -> f64 {
    let title = if axis.title.is_empty() { 0.0 } else { TITLE_PT + GAP_PT };
    title + axis.labels_width() + GAP_PT + TICK_PT
}

/// Half of the last label of a lower axis stands out beyond the plot.
const OVERHANG_PT: f64 = 8.0;
/// Half of the highest label of a left axis stands out above it.
const LEAST_ABOVE_PT: f64 = 4.0;

/// Where the plot of a cell lies, with room for its axes and so much above it.
pub(in crate::figures) fn inner(cell: Rect, left_width: f64, x: &Axis, above_pt: f64) -> Rect {
    Rect {
        left: cell.left + left_width,
        top: cell.top + above_pt.max(LEAST_ABOVE_PT),
        right: cell.right - OVERHANG_PT,
        bottom: cell.bottom - bottom_height(x),
    }
}

/// The plot of a cell with its axes.
pub(in crate::figures) fn opened(scene: &mut Scene, cell: Rect, x: &Axis, y: &Axis, above_pt: f64) -> Plot {
    let left = left_width(y);
    let plot = Plot::new(inner(cell, left, x, above_pt), x, y);
    plot.draw_grid(scene, y);
    plot.draw_x(scene, x);
    plot.draw_y(scene, y, left);
    plot
}

/// What is drawn on of a sheet.
pub(in crate::figures) fn drawable(scene: &Scene) -> Rect {
    let area = scene.area();
    Rect { left: EDGE_PT, top: EDGE_PT, right: area.right - EDGE_PT, bottom: area.bottom - EDGE_PT }
}

/// Text cut to a width, with an ellipsis where it was cut.
pub(in crate::figures) fn fitted(text: &str, size_pt: f64, width_pt: f64) -> String {
    if text_width(text, size_pt) <= width_pt {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while !kept.is_empty()
        && text_width(&kept.iter().collect::<String>(), size_pt) + text_width("…", size_pt) > width_pt
    {
        kept.pop();
    }
    format!("{}…", kept.iter().collect::<String>().trim_end())
}

/// Text shortened in its middle to a width: names often differ at their ends, such as `model.q4_1` and `model.q8_0`.
pub(in crate::figures) fn fitted_middle(text: &str, size_pt: f64, width_pt: f64) -> String {
    if text_width(text, size_pt) <= width_pt {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let kept = |count: usize| {
        let (head, tail) = (count.div_ceil(2), count / 2);
        let part = |letters: &[char]| letters.iter().collect::<String>();
        format!("{}…{}", part(&letters[..head]).trim_end(), part(&letters[letters.len() - tail..]).trim_start())
    };
    let fits = (1..letters.len()).rev().map(kept).find(|text| text_width(text, size_pt) <= width_pt);
    fits.unwrap_or_else(|| "…".to_owned())
}

/// Equal cells of an area, row by row.
pub(in crate::figures) fn cells(area: Rect, count: usize, columns: usize, gap_pt: f64) -> Vec<Rect> {
    let columns = columns.clamp(1, count.max(1));
    let rows = count.div_ceil(columns).max(1);
    let width = (area.width() - gap_pt * (columns - 1) as f64) / columns as f64;
    let height = (area.height() - gap_pt * (rows - 1) as f64) / rows as f64;
    let cell = |place: usize| {
        let left = area.left + (place % columns) as f64 * (width + gap_pt);
        let top = area.top + (place / columns) as f64 * (height + gap_pt);
        Rect { left, top, right: left + width, bottom: top + height }
    };
    (0..count).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::super::axis::Quantity;
    use super::*;

    #[test]
    fn values_lie_where_their_axes_say() {
        let area = Rect { left: 10.0, top: 20.0, right: 110.0, bottom: 70.0 };
        let axis = Axis::between("", Quantity::Number, 0.0, 10.0, 100.0);
        let plot = Plot::new(area, &axis, &axis);
        assert_eq!((plot.at(0.0, 0.0), plot.at(5.0, 10.0)), ((10.0, 70.0), (60.0, 20.0)));
        assert_eq!(plot.downward().at(10.0, 10.0), (110.0, 70.0));
    }

    #[test]
    fn cells_share_an_area_and_long_text_is_cut() {
        let area = Rect { left: 0.0, top: 0.0, right: 110.0, bottom: 50.0 };
        let cells = cells(area, 3, 2, 10.0);
        assert_eq!(cells[2], Rect { left: 0.0, top: 30.0, right: 50.0, bottom: 50.0 });
        assert_eq!(fitted("ab", 7.0, 100.0), "ab");
        let cut = fitted("abcdefghij", 7.0, 20.0);
        assert!(cut.ends_with('…') && text_width(&cut, 7.0) <= 20.0, "{cut}");
        let cut = fitted_middle("smollm2-135m-instruct.q4_1", 7.0, 60.0);
        assert!(cut.starts_with("smol") && cut.ends_with("q4_1") && text_width(&cut, 7.0) <= 60.0, "{cut}");
    }
}
