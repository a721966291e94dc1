//! One file per command.

pub(crate) mod analyse;
mod analyse_part;
mod analyse_share;
mod analyse_tree;
pub(crate) mod capture;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod export;
pub(crate) mod figure;
pub(crate) mod guard;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod model_info;
pub(crate) mod model_make;
pub(crate) mod model_pull;
pub(crate) mod model_tensors;
pub(crate) mod observe;
mod observe_report;
pub(crate) mod plan;
pub(crate) mod planned_run;
pub(crate) mod recover;
mod recover_tree;
pub(crate) mod relabel;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod sql;
pub(crate) mod tensors;
mod tensors_convert;
mod tensors_diff;
mod tensors_info;
mod tensors_recover;
mod tensors_stats;
mod tensors_verify;
pub(crate) mod trace;
pub(crate) mod validate;
pub(crate) mod verify;
mod verify_tree;
pub(crate) mod view;
pub(crate) mod watch;
pub(crate) mod web;

use std::path::Path;

use anyhow::Context;
use dwell_analysis::{Options, SuitabilityThresholds};
use dwell_store::{RunDir, TreeKind, tree_kind};
use serde::Serialize;

use crate::args::MetricsArgs;
use crate::messages::{Failure, hinted};
use crate::output::print_for_programs;
use crate::shell::shell_word;

impl MetricsArgs {
    /// What the arguments mean to the analysis.
    pub(crate) fn options(&self) -> Options {
        self.options_over(Options::default())
    }

    /// The same, where what is not given stays as it is.
    pub(crate) fn options_over(&self, base: Options) -> Options {
        let thresholds = base.thresholds;
        Options {
            definitions: self.definitions.unwrap_or(base.definitions),
            thresholds: SuitabilityThresholds {
                high_write_once: self.high_write_once.unwrap_or(thresholds.high_write_once),
                high_retention_s: self.high_retention_secs.unwrap_or(thresholds.high_retention_s),
                medium_write_once: self.medium_write_once.unwrap_or(thresholds.medium_write_once),
                medium_retention_s: self.medium_retention_secs.unwrap_or(thresholds.medium_retention_s),
                tokens_per_s: self.at_tokens_per_sec.unwrap_or(thresholds.tokens_per_s),
            },
            ..base
        }
    }
}

/// Prints a value as JSON on standard output.
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("writing JSON")?;
    print_for_programs(&format!("{text}\n"))
}

/// The run at a path; a folder of runs is refused with how to list them.
fn one_run_at(path: &Path, doing: &str) -> anyhow::Result<RunDir> {
    if kind_at(path)? == TreeKind::Tree {
        let folder = shell_word(&path.display().to_string());
        let failure = Failure::new(format!("{doing} takes one run, and found a folder of runs: {path:?}"));
        return Err(failure.hint(format!("list the runs: dwell ls {folder}")).into());
    }
    RunDir::open(path).map_err(hinted)
}

/// What lies at a path that is to be a run or a folder of runs.
fn kind_at(path: &Path) -> Result<TreeKind, Failure> {
    tree_kind(path).map_err(|error| Failure::from_hinted(&error))
}
