//! What a page shows: a run, a comparison or an experiment, as the viewer reads it.
//!
//! The types are those of `viewer/src/page.ts`; a test compares the two. Every number and every sentence is made here; the
//! page only draws. [`html`] puts a page and the viewer into one file.

mod comparison;
mod experiment;
mod experiment_plots;
mod html;
mod run;
mod run_class;
mod run_observed;
mod run_regions;
mod run_timeline;
mod run_trust;

use comparison::{ComparisonPage, drawn_runs};
use dwell_store::RunDir;
use experiment::ExperimentPage;
use serde::Serialize;

use crate::{Aggregate, Comparison, ReportError};

pub(crate) use experiment_plots::{
    Line as ExperimentLine, Plot as ExperimentPlot, Point as ExperimentPoint, plots as experiment_plots,
    varying as varying_plots,
};
pub use html::{Viewer, report_html};
pub(crate) use run::{MemoryPart, overview_of};
pub use run::{RunPage, RunReport};
pub(crate) use run_regions::{RegionRow, title as region_title};
pub(crate) use run_timeline::{Samples, Timeline, open_table, sampled};

/// Version of the types.
pub const PAGE_FORMAT: u32 = 1;

/// A page.
#[derive(Debug, Serialize)]
pub struct Page {
    format: u32,
    kind: &'static str,
    title: String,
    written_by: String,
    runs: Vec<RunPage>,
    comparison: Option<ComparisonPage>,
    experiment: Option<ExperimentPage>,
}

impl Page {
    fn new(kind: &'static str, title: String, runs: Vec<RunPage>) -> Self {
        Self {
            format: PAGE_FORMAT,
            kind,
            title,
            written_by: concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned(),
            runs,
            comparison: None,
            experiment: None,
        }
    }

    /// The page of one run.
    pub fn of_run(run: RunPage) -> Self {
        Self::new("run", format!("{} · {}", run.model(), run.run_id()), vec![run])
    }

    /// The page of a comparison, with a run of each configuration drawn beside the others.
    pub fn of_comparison(comparison: &Comparison) -> Result<Self, ReportError> {
        let runs = drawn_runs(comparison).map(|path| RunPage::load(&RunDir::open(path)?));
        let runs = runs.collect::<Result<Vec<RunPage>, ReportError>>()?;
        let title = format!("Comparison of {}", crate::text::counted(comparison.groups.len() as u64, "configuration"));
        Ok(Self { comparison: Some(ComparisonPage::new(comparison)), ..Self::new("comparison", title, runs) })
    }

    /// The page of an experiment, by the id or name that it was asked for. Runs that do not count do not say its name.
    pub fn of_experiment(aggregate: &Aggregate, asked: &str) -> Self {
        let experiment = ExperimentPage::new(aggregate, asked);
        let title = format!("Experiment {}", experiment.name());
        Self { experiment: Some(experiment), ..Self::new("experiment", title, Vec::new()) }
    }

    /// The same page of an experiment under its name, which the runs that count say only if there are any.
    pub fn of_experiment_named(aggregate: &Aggregate, asked: &str, name: &str) -> Self {
        let mut page = Self::of_experiment(aggregate, asked);
        if let Some(experiment) = page.experiment.as_mut().filter(|_| aggregate.experiments.is_empty()) {
            experiment.set_name(name);
            page.title = format!("Experiment {name}");
        }
        page
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }
}

/// How far something can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Good,
    Note,
    Bad,
}

/// One thing that decides how far a run can be trusted.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Statement {
    pub(crate) topic: &'static str,
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) reasons: Vec<String>,
}
