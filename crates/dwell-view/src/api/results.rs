//! `/results`: the runs and experiments of the tree.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use dwell_report::{ExperimentEntry, RunEntry};
use serde::Serialize;

use super::{App, FORMAT};
use crate::error::ApiError;
use crate::params::Params;
use crate::tree::Tree;

/// What lies in the tree, each newest first.
#[derive(Serialize)]
struct Results {
    format: u32,
    written_by: &'static str,
    root: String,
    single_run: bool,
    runs: Vec<RunEntry>,
    experiments: Vec<ExperimentEntry>,
}

pub(super) async fn get(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    Params::of(query.as_deref(), &[])?;
    app.answer(|app| Ok(results(&app.tree))).await
}

fn results(tree: &Tree) -> Results {
    let list = tree.list();
    // Clients name a run by its place in the tree; where that lies is not theirs to know.
    let named = |path: PathBuf| PathBuf::from(tree.name_of(&path));
    let runs = list.runs.into_iter().map(|run| match tree.check_run(&run.path) {
        Ok(()) => RunEntry { path: named(run.path), ..run },
        // Nothing is said of it but its name: what was read may come from elsewhere.
        Err(refusal) => RunEntry { path: named(run.path.clone()), ..RunEntry::damaged(&run.path, refusal.to_string()) },
    });
    let experiments = list.experiments.into_iter();
    let experiments = experiments.map(|each| ExperimentEntry { path: named(each.path), ..each });
    Results {
        format: FORMAT,
        written_by: concat!("dwell ", env!("CARGO_PKG_VERSION")),
        root: tree.name(),
        single_run: tree.is_run(),
        runs: runs.collect(),
        experiments: experiments.collect(),
    }
}
