//! Loads upwards and stores downwards, each on a scale of its own, because far more is loaded than stored. A gap between the
//! two keeps them from looking like one scale.

use super::axis::{Axis, Quantity};
use super::palette::AXIS;
use super::plot::{Plot, inner, left_width};
use crate::figures::scene::{Rect, Scene};

/// Share of the height that loads take.
const UP_SHARE: f64 = 0.62;
/// Between the zero lines of the two.
const GAP_PT: f64 = 7.0;

/// Two plots that share their horizontal axis, each with its own zero line.
pub(in crate::figures) struct Mirrored {
    pub(in crate::figures) loads: Plot,
    pub(in crate::figures) stores: Plot,
}

/// The greatest values of both sides.
pub(in crate::figures) struct Greatest {
    pub(in crate::figures) loaded: f64,
    pub(in crate::figures) stored: f64,
}

impl Mirrored {
    /// Both plots with their axes.
    pub(in crate::figures) fn open(
        scene: &mut Scene,
        cell: Rect,
        x: &Axis,
        quantity: Quantity,
        most: &Greatest,
        above_pt: f64,
    ) -> Self {
        let (up_room, down_room) = (cell.height() * UP_SHARE * 0.8, cell.height() * (1.0 - UP_SHARE) * 0.6);
        let up = Axis::from_zero("Loads", quantity, most.loaded, up_room);
        let down = Axis::from_zero("Stores", quantity, most.stored, down_room);
        let left = left_width(&up).max(left_width(&down));
        let area = inner(cell, left, x, above_pt);
        let middle = area.top + area.height() * UP_SHARE;
        let loads = Plot::new(Rect { bottom: middle - GAP_PT / 2.0, ..area }, x, &up);
        let stores = Plot::new(Rect { top: middle + GAP_PT / 2.0, ..area }, x, &down).downward();
        loads.draw_grid(scene, &up);
        stores.draw_grid(scene, &down);
        stores.draw_x(scene, x);
        loads.draw_y(scene, &up, left);
        stores.draw_y(scene, &down, left);
        Self { loads, stores }
    }

    /// The zero lines of both, above what was drawn.
    pub(in crate::figures) fn close(&self, scene: &mut Scene) {
        self.loads.draw_base(scene);
        let Rect { left, right, top, .. } = self.stores.area;
        scene.line(&[(left, top), (right, top)], AXIS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_scales_have_two_zero_lines() {
        let mut scene = Scene::new(80.0, 60.0);
        let x = Axis::between("Layer", Quantity::Number, 0.0, 4.0, 50.0);
        let cell = Rect { left: 0.0, top: 0.0, right: 200.0, bottom: 150.0 };
        let most = Greatest { loaded: 4096.0, stored: 16.0 };
        let both = Mirrored::open(&mut scene, cell, &x, Quantity::Bytes, &most, 0.0);
        assert!((both.stores.y(0.0) - both.loads.y(0.0) - GAP_PT).abs() < 1e-9);
        let svg = scene.svg();
        assert!(svg.contains(">Loads (KiB)<") && svg.contains(">Stores (B)<"), "{svg}");
        assert_eq!(svg.matches(">0<").count(), 3, "one for the layers, and one for each scale");
    }
}
