//! What a figure is: its name, what it shows, what it is drawn from.

use super::drawn::{Drawing, DrawnFigure};
use super::{ALL_FIGURES, FigureSize};
use crate::{Aggregate, Comparison, ReportError, RunPage};

/// A figure.
#[derive(Debug)]
pub struct FigureKind {
    /// Its name on the command line and of its files.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub shows: &'static str,
    /// What runs must have for it, as in "found no …".
    pub(super) needs: &'static str,
    pub(super) draw: Draw,
}

/// A drawing, or none if there are no numbers for it.
pub(super) type MaybeDrawn = Result<Option<Drawing>, ReportError>;

/// How a figure is drawn; nothing if there are no numbers for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draw {
    Run(fn(&RunPage, FigureSize) -> Option<Drawing>),
    Runs(fn(&Comparison, FigureSize) -> MaybeDrawn),
    Experiment(fn(&Aggregate, Option<&str>, FigureSize) -> MaybeDrawn),
}

/// What a figure is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureSource {
    /// One run.
    Run,
    /// Several runs, compared.
    Runs,
    /// The runs of an experiment, aggregated.
    Experiment,
}

impl FigureSource {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "a run",
            Self::Runs => "runs",
            Self::Experiment => "an experiment",
        }
    }
}

/// Runs, as a figure is drawn from them.
#[derive(Clone, Copy, Debug)]
pub enum FigureInput<'a> {
    /// One run.
    Run(&'a RunPage),
    /// Several runs.
    Runs(&'a Comparison),
    /// An experiment, and which of its metrics is drawn; all without one.
    Experiment {
        /// Its runs.
        aggregate: &'a Aggregate,
        /// The metric.
        metric: Option<&'a str>,
    },
}

impl FigureInput<'_> {
    pub(super) fn source(&self) -> FigureSource {
        match self {
            Self::Run(_) => FigureSource::Run,
            Self::Runs(_) => FigureSource::Runs,
            Self::Experiment { .. } => FigureSource::Experiment,
        }
    }

    /// Which runs they are, for messages.
    fn name(&self) -> String {
        match self {
            Self::Run(run) => format!("the run {}", run.run_id()),
            Self::Runs(comparison) => {
                let ids = comparison.groups.iter().flat_map(|group| &group.run_ids).map(String::as_str);
                format!("the runs {}", ids.collect::<Vec<_>>().join(", "))
            }
            Self::Experiment { aggregate, .. } => {
                let names: Vec<&str> = aggregate.experiments.iter().map(String::as_str).collect();
                format!("the experiment {}", names.join(", "))
            }
        }
    }
}

impl FigureKind {
    /// What it is drawn from.
    pub fn source(&self) -> FigureSource {
        match self.draw {
            Draw::Run(_) => FigureSource::Run,
            Draw::Runs(_) => FigureSource::Runs,
            Draw::Experiment(_) => FigureSource::Experiment,
        }
    }

    /// Draws it.
    pub fn draw(&self, input: &FigureInput<'_>, size: FigureSize) -> Result<DrawnFigure, ReportError> {
        let (drawing, metric) = match (self.draw, *input) {
            (Draw::Run(draw), FigureInput::Run(run)) => (draw(run, size), None),
            (Draw::Runs(draw), FigureInput::Runs(comparison)) => (draw(comparison, size)?, None),
            (Draw::Experiment(draw), FigureInput::Experiment { aggregate, metric }) => {
                (draw(aggregate, metric, size)?, metric)
            }
            _ => (None, None),
        };
        let nothing = || ReportError::NothingToDraw { figure: self.name, needs: self.needs, place: input.name() };
        let drawing = drawing.ok_or_else(nothing)?;
        Ok(DrawnFigure::new(
            metric.map_or_else(|| self.name.to_owned(), |name| format!("{}-{name}", self.name)),
            drawing,
        ))
    }
}

/// A figure by its name.
pub fn figure_named(name: &str) -> Result<&'static FigureKind, ReportError> {
    let known = ALL_FIGURES.into_iter().find(|kind| kind.name == name);
    known.ok_or_else(|| ReportError::UnknownFigure {
        name: name.to_owned(),
        nearest: nearest(name, ALL_FIGURES.iter().map(|kind| kind.name)).map(str::to_owned),
    })
}

/// The name that is most like another, if one is.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const SIMILAR: f64 = 0.7;
    let likeness = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let nearest = likeness.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.filter(|(likeness, _)| *likeness >= SIMILAR).map(|(_, known)| known)
}
