//! Figures as SVG: the same bytes for the same numbers.

mod axis;
mod canvas;
mod dots;
mod experiment;
mod histogram;

pub use experiment::experiment_figures;
pub use histogram::retention_histogram_svg;
