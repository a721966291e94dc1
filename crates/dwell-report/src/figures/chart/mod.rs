//! What charts have in common: scales, axes, legends, marks and colours.

pub(super) mod axis;
pub(super) mod heat;
pub(super) mod legend;
pub(super) mod mark;
pub(super) mod mirrored;
pub(super) mod palette;
pub(super) mod plot;
pub(super) mod rows;
pub(super) mod steps;
