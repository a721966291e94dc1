//! From a tree of runs to what is published: aggregates, figures, datasets.
//!
//! [`RunResults`] is what is read of a run: metadata and figures. [`aggregate`] leaves out the runs that do not count,
//! groups the others and summarises their figures; [`ALL_FIGURES`] lists what can be drawn of them; [`export`] makes a folder that is
//! ready to be published. [`compare`] puts the memory and speed of runs side by side.

#![forbid(unsafe_code)]

mod aggregate;
mod compare;
mod compare_context;
mod compare_csv;
mod compare_curve;
mod compare_figures;
mod compare_work;
mod dictionary;
mod error;
mod exclusion;
mod export;
mod figures;
mod group;
pub mod missing_runs;
mod numbers;
mod observed_tokens;
mod page;
mod perfetto;
mod run_list;
mod run_on_disk;
mod run_results;
mod run_summary;
mod sql;
mod summary_csv;
pub mod text;
mod watched;

pub use aggregate::{Aggregate, AggregateOptions, Group, RUN_FIGURES, RegionGroup, RunFigure, aggregate, unit_of};
pub use compare::{
    CompareGroup, CompareKey, CompareOptions, CompareSource, Comparison, Spread, compare, compare_chosen,
};
pub use compare_context::ContextLine;
pub use compare_figures::{FIGURES, Figure};
pub use dictionary::{DictionaryEntry, data_dictionary};
pub use error::ReportError;
pub use exclusion::{Exclusion, ExclusionReason, exclusion_of, exclusions_text};
pub use export::{Dataset, EXPORTERS, ExportReport, ExportRequest, Exporter, dataset_staging, export, spdx_licence};
pub use figures::{
    ALL_FIGURES, DrawnFigure, FigureFormat, FigureInput, FigureKind, FigureSize, FigureSource, RUN_FIGURE_VIEWS,
    RUN_VIEWS, comparison_figures, experiment_figures, figure_named, observation_figures,
};
pub use group::GroupKey;
pub use missing_runs::missing_runs;
pub use observed_tokens::token_times;
pub use page::{Page, RunPage, Viewer, report_html};
pub use perfetto::{PerfettoReport, export_perfetto};
pub use run_list::{EntryState, ExperimentEntry, ResultsList, RunEntry, changed_at_utc, list_runs};
pub use run_results::{MetricsLine, RunResults};
pub use run_summary::{LossSummary, RegionSummary, RegionsSummary, RunSummary};
pub use sql::sql_views;
