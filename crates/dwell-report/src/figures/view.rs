//! Figures that every run directory has.

use dwell_metadata::{RunView, ViewedRun};

use super::survival::SURVIVAL;
use super::{DrawnFigure, FigureInput, FigureKind, FigureSize};
use crate::{ReportError, RunPage};

/// A file of a figure in a run directory.
pub(super) struct FigureView {
    path: &'static str,
    kind: &'static FigureKind,
    content: fn(&DrawnFigure) -> String,
}

pub(super) const SURVIVAL_SVG: FigureView =
    FigureView { path: "figures/survival.svg", kind: &SURVIVAL, content: DrawnFigure::svg };
pub(super) const SURVIVAL_CSV: FigureView =
    FigureView { path: "figures/survival.csv", kind: &SURVIVAL, content: DrawnFigure::csv };

impl RunView for FigureView {
    fn path(&self) -> &'static str {
        self.path
    }

    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String> {
        let page = RunPage::of_view(run).map_err(|error| error.to_string())?;
        match self.kind.draw(&FigureInput::Run(&page), FigureSize::Page) {
            Ok(drawn) => Ok(Some((self.content)(&drawn))),
            Err(ReportError::NothingToDraw { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}
