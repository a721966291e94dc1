//! Figures as SVG: the same bytes for the same numbers.

mod axis;
mod canvas;
mod compare;
mod compare_lines;
mod dots;
mod experiment;
mod histogram;

use dwell_metadata::RunView;

pub use compare::comparison_figures;
pub use experiment::experiment_figures;
pub use histogram::retention_histogram_svg;

/// What is drawn of every run, before it is sealed. A new figure is a file beside this and a line here.
pub const RUN_FIGURE_VIEWS: [&dyn RunView; 1] = [&histogram::RetentionHistogram];

/// The same and the report, for runs that are looked at one by one.
pub const RUN_VIEWS: [&dyn RunView; 2] = [&histogram::RetentionHistogram, &crate::page::RunReport];
