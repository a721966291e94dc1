//! Figures for papers: one list of them, each drawn as SVG, PDF or PNG at the width of a column or a page, with its numbers
//! as CSV. The same numbers give the same bytes.

mod chart;
mod compare;
mod curve;
mod drawn;
mod experiment;
mod growth;
mod kind;
mod kv;
mod labels;
mod layers;
mod memory;
mod memory_map;
mod observation;
mod phases;
mod retention;
mod scene;
mod size;
mod speed;
mod survival;
mod table;
mod thresholds;
mod traffic;
mod view;
mod working_set;

use dwell_metadata::RunView;

pub use drawn::{DrawnFigure, FigureFormat};
pub use kind::{FigureInput, FigureKind, FigureSource, figure_named};
pub use observation::observation_figures;
pub use size::FigureSize;

use crate::{Aggregate, Comparison, ReportError};

/// Every figure, in the order in which they are listed. A new one is a file beside this and a line here.
pub const ALL_FIGURES: [&FigureKind; 13] = [
    &survival::SURVIVAL,
    &retention::RETENTION,
    &traffic::TRAFFIC,
    &memory_map::MEMORY_MAP,
    &kv::KV,
    &memory::MEMORY,
    &working_set::WORKING_SET,
    &layers::LAYERS,
    &compare::COMPARE,
    &curve::CURVE,
    &growth::GROWTH,
    &speed::SPEED,
    &experiment::EXPERIMENT,
];

/// What is drawn of every run, before it is sealed.
pub const RUN_FIGURE_VIEWS: [&dyn RunView; 2] = [&view::SURVIVAL_SVG, &view::SURVIVAL_CSV];

/// The same and the report, for runs that are looked at one by one.
pub const RUN_VIEWS: [&dyn RunView; 3] = [&view::SURVIVAL_SVG, &view::SURVIVAL_CSV, &crate::page::RunReport];

/// Every figure of a comparison that its runs have numbers for.
pub fn comparison_figures(comparison: &Comparison) -> Result<Vec<DrawnFigure>, ReportError> {
    drawable(&FigureInput::Runs(comparison))
}

/// Every figure of an aggregate that its runs have numbers for.
pub fn experiment_figures(aggregate: &Aggregate) -> Result<Vec<DrawnFigure>, ReportError> {
    drawable(&FigureInput::Experiment { aggregate, metric: None })
}

fn drawable(input: &FigureInput<'_>) -> Result<Vec<DrawnFigure>, ReportError> {
    let kinds = ALL_FIGURES.iter().filter(|kind| kind.source() == input.source());
    let drawn = kinds.map(|kind| match kind.draw(input, FigureSize::Page) {
        Err(ReportError::NothingToDraw { .. }) => Ok(None),
        drawn => drawn.map(Some),
    });
    drawn.filter_map(Result::transpose).collect()
}
