//! Loads upwards and stores downwards, each on a scale of its own, because far more is loaded than stored.

use super::axis::{Axis, Quantity};
use super::plot::{Plot, inner, left_width};
use crate::figures::scene::{Rect, Scene};

/// Share of the height that loads take.
const UP_SHARE: f64 = 0.62;

/// Two plots that share their horizontal axis, which lies between them.
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
        let mut down = Axis::from_zero("Stores", quantity, most.stored, down_room);
        // The 0 of loads is the same.
        down.ticks.remove(0);
        let left = left_width(&up).max(left_width(&down));
        let area = inner(cell, left, x, above_pt);
        let middle = area.top + area.height() * UP_SHARE;
        let loads = Plot::new(Rect { bottom: middle, ..area }, x, &up);
        let stores = Plot::new(Rect { top: middle, ..area }, x, &down).downward();
        loads.draw_grid(scene, &up);
        stores.draw_grid(scene, &down);
        stores.draw_x(scene, x);
        loads.draw_y(scene, &up, left);
        stores.draw_y(scene, &down, left);
        Self { loads, stores }
    }

    /// The line between the two, above what was drawn.
    pub(in crate::figures) fn close(&self, scene: &mut Scene) {
        self.loads.draw_base(scene);
    }
}
