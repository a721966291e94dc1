//! Figures as SVG: the same bytes for the same numbers.

mod axis;
mod canvas;
mod compare;
mod compare_lines;
mod dots;
mod experiment;
mod histogram;

pub use compare::comparison_figures;
pub use experiment::experiment_figures;
pub use histogram::retention_histogram_svg;
