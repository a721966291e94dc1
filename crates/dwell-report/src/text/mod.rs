//! Results as text for people. The command line prints these as they are.

mod aggregate;
mod allocations;
mod capture;
mod compare;
mod doctor;
mod energy;
mod fit;
mod format;
mod list;
mod model;
mod observation_report;
mod observe;
mod regions;
mod run;
mod speed;
mod tensors;
mod verify;
mod visible;
mod watch;
mod wrap;

pub use aggregate::{aggregate_text, run_table};
pub use capture::{CaptureOutcome, CaptureSummary, list_text};
pub use compare::comparison_text;
pub use doctor::{DoctorProgram, DoctorReport, DoctorVerdict};
pub use fit::fitted;
pub(crate) use format::capitalised;
pub use format::{Fit, counted, or_dash, table, table_within, totals};
pub use list::list_of_runs_text;
pub use model::{model_title, model_title_of};
pub use observation_report::observation_report_text;
pub use observe::observation_text;
pub use regions::{DEFAULT_WIDTH_CHARS, region_tables};
pub use run::summary_text;
pub use speed::speed_line;
pub use tensors::{
    ConvertedStream, StreamInfo, tensors_diff_text, tensors_recovered_text, tensors_stats_text, tensors_verify_text,
};
pub use verify::{verify_text, verify_tree_text};
pub use visible::{visible, visible_in_line};
pub use watch::{CommandEnd, WatchCost, WatchSummary, WatchedGrowth, WatchedMemory, WatchedProcess, growth_text};
pub use wrap::wrapped;

pub use crate::numbers::{bytes, count, ratio, seconds};
