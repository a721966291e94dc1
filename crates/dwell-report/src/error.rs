use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_files::FileError;
use dwell_metadata::MetadataError;
use dwell_metrics::MetricsError;
use dwell_store::StoreError;

/// Why runs could not be aggregated or published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Reading or writing a file failed.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The metrics of a run could not be computed.
    #[error(transparent)]
    Metrics(MetricsError),

    /// The metadata of a run cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),

    /// A file of a run does not hold what it should.
    #[error("{action} found {found}: {path:?}")]
    UnfitFile {
        /// What was being done.
        action: &'static str,
        /// What was found.
        found: String,
        /// The file.
        path: PathBuf,
    },

    /// A path cannot be written in a statement.
    #[error("writing a statement found a path that is not UTF-8, and DuckDB needs one that is: {path:?}")]
    PathIsNotText {
        /// The path.
        path: PathBuf,
    },

    /// No run is left to export.
    #[error("exporting found {found_runs} runs and none to export ({why}): {path:?}")]
    NothingToExport {
        /// Runs that were found.
        found_runs: usize,
        /// Why they are left out, in words.
        why: String,
        /// Whether any of them is finished, so that it could be exported on request.
        has_finished: bool,
        /// Where they were looked for.
        path: PathBuf,
    },

    /// No run belongs to the experiment that was asked for.
    #[error("no experiment is called {wanted:?}; there are: {known}")]
    UnknownExperiment {
        /// What was asked for.
        wanted: String,
        /// Experiments of the runs, in words.
        known: String,
    },

    /// No run is left to compare.
    #[error("comparing runs found {found_runs} and none to compare ({why})")]
    NothingToCompare {
        /// Runs that were found.
        found_runs: usize,
        /// Why they are left out, in words.
        why: String,
    },

    /// A run that was named has no figures.
    #[error("comparing runs found one that is {state}, and a finished one was needed: {run:?}")]
    NotComparable {
        /// `unfinished` or `failed`, and why.
        state: String,
        /// The run.
        run: PathBuf,
    },

    /// The runs have no numbers for a figure.
    #[error("drawing the figure {figure} found no {needs} in {place}")]
    NothingToDraw {
        /// Name of the figure.
        figure: &'static str,
        /// What it needs.
        needs: &'static str,
        /// Which runs they are.
        place: String,
    },

    /// There is no figure of this name.
    #[error("drawing a figure found the name {name:?}, and that of a figure was needed")]
    UnknownFigure {
        /// The name.
        name: String,
        /// A figure with a similar name.
        nearest: Option<String>,
    },

    /// An experiment has no plot of this metric.
    #[error("drawing one metric of an experiment found the name {metric:?}, and one of these was needed: {known}")]
    UnknownPlot {
        /// The name.
        metric: String,
        /// A metric with a similar name.
        nearest: Option<String>,
        /// All metrics that it has, in words.
        known: String,
    },

    /// Drawing failed.
    #[error("drawing the figure {figure} failed: {reason}")]
    Drawing {
        /// Name of the figure.
        figure: String,
        /// Why.
        reason: String,
    },

    /// No licence was given.
    #[error("exporting a dataset found no licence, and one is needed to publish")]
    NoLicence,

    /// Runs name different licences.
    #[error("exporting a dataset found the licences {}, and one is needed", found.join(", "))]
    SeveralLicences {
        /// Names that runs give.
        found: Vec<String>,
    },

    /// Some runs name a licence and others do not.
    #[error(
        "exporting a dataset found {without} of {runs} runs without a licence, and the others are under {licence}: {run:?}"
    )]
    RunWithoutLicence {
        /// Runs without a licence.
        without: usize,
        /// All runs to export.
        runs: usize,
        /// The licence of the others.
        licence: String,
        /// The first run without one.
        run: PathBuf,
    },

    /// A text is not an SPDX expression.
    #[error(
        "exporting a dataset found the licence {found:?}, and an SPDX name such as CC-BY-4.0 was needed ({reason})"
    )]
    NotALicence {
        /// What was given.
        found: String,
        /// What is wrong with it.
        reason: String,
        /// A listed licence with a similar name.
        nearest: Option<String>,
    },

    /// A run is not what its manifest says.
    #[error("exporting the run found that it is damaged ({problem}): {run:?}")]
    DamagedRun {
        /// What differs.
        problem: String,
        /// The run.
        run: PathBuf,
    },

    /// Two runs would have the same place in the dataset.
    #[error("exporting the run found another run with its name, {name}: {run:?}")]
    SameName {
        /// `<model>/<run>`.
        name: String,
        /// The second run.
        run: PathBuf,
    },

    /// The target exists.
    #[error("exporting a dataset found that its folder exists already: {path:?}")]
    TargetExists {
        /// The folder.
        path: PathBuf,
    },
}

impl From<MetricsError> for ReportError {
    fn from(error: MetricsError) -> Self {
        match error {
            MetricsError::Store(error) => Self::Store(error),
            other => Self::Metrics(other),
        }
    }
}

impl From<FileError> for ReportError {
    fn from(error: FileError) -> Self {
        Self::Store(error.into())
    }
}

impl Hint for ReportError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Metrics(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::Metadata(error) => error.hints(),
            Self::NothingToExport { has_finished: true, .. } => {
                vec!["export every finished run with `--all`; the card then states what each is".to_owned()]
            }
            Self::NothingToExport { found_runs, path, .. } if *found_runs > 0 => {
                vec![format!("finish runs that were killed with `dwell recover '{}'`", path.display())]
            }
            Self::NotComparable { state, run } if state.starts_with("unfinished") => {
                vec![format!("finish a run that was killed with `dwell recover '{}'`", run.display())]
            }
            Self::NothingToCompare { .. } => {
                vec!["name the runs to include excluded ones: dwell compare RUN RUN".to_owned()]
            }
            Self::NothingToDraw { .. } => vec![
                "see what the runs hold with `dwell report`; accesses are recorded by `dwell run` and `dwell trace`, memory by the collector `process`".to_owned(),
            ],
            Self::UnknownFigure { nearest, .. } => {
                let meant = nearest.iter().map(|name| format!("did you mean `{name}`?"));
                meant.chain(["list all figures with `dwell figure --list`".to_owned()]).collect()
            }
            Self::UnknownPlot { nearest, .. } => nearest.iter().map(|name| format!("did you mean `{name}`?")).collect(),
            Self::NoLicence => vec![
                "name one with `--licence CC-BY-4.0`".to_owned(),
                "or set `experiment.licence` in the experiment's file, which its runs then carry".to_owned(),
            ],
            Self::SeveralLicences { .. } => vec!["name one with `--licence CC-BY-4.0`".to_owned()],
            Self::RunWithoutLicence { licence, run, .. } => vec![
                format!("if all runs may be published under it, say so with `--licence '{licence}'`"),
                format!("or move it out of the results directory: mv '{}' /path/outside/", run.display()),
            ],
            Self::NotALicence { nearest, .. } => vec![
                format!(
                    "name one with `--licence {0}`, or `licence: {0}` in an experiment",
                    nearest.as_deref().unwrap_or("CC-BY-4.0")
                ),
                "every name is in https://spdx.org/licenses; AND, OR and WITH join several".to_owned(),
            ],
            Self::DamagedRun { run, .. } => vec![
                format!("see every file with `dwell verify '{}'`", run.display()),
                format!("make its tables again from what was recorded with `dwell recover '{}'`", run.display()),
            ],
            Self::UnfitFile { path, .. } => {
                vec![format!(
                    "see whether it has changed with `dwell verify '{}'`",
                    path.parent().unwrap_or(path).display()
                )]
            }
            Self::UnknownExperiment { .. } => vec!["choose one by its name or id: --experiment NAME".to_owned()],
            Self::SameName { run, .. } => {
                vec![format!("move one of the two out of the results directory: mv '{}' /path/outside/", run.display())]
            }
            Self::TargetExists { path } => {
                vec![format!("choose another folder with `-o`, or see `ls '{}'`", path.display())]
            }
            _ => Vec::new(),
        }
    }
}

impl ReportError {
    /// A file system failure while exporting.
    pub(crate) fn from_io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Store(StoreError::from_io(action, path, source))
    }
}
