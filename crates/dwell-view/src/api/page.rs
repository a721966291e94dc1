//! `/page`: a run, a comparison or an experiment, as the viewer draws it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dwell_report::{AggregateOptions, CompareSource, Page, RunPage, RunResults, aggregate, compare};
use dwell_store::{FoundRun, runs_under};
use sha2::{Digest, Sha256};

use super::{App, json};
use crate::error::ApiError;
use crate::live::ReadableRun;
use crate::params::Params;

/// Seconds after which to ask again, of a run that goes on.
const REFRESH: HeaderName = HeaderName::from_static("dwell-refresh");

/// Runs that are compared at most.
const MOST_COMPARED: usize = 64;

pub(super) async fn get(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let request = Request::of(query.as_deref())?;
    let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let (desk, worker) = (&app.desk, app.clone());
    let made = desk.work(move || worker.page(&request, known.as_deref())).await?;
    let mut response = match made.json {
        Some(json) => ([(CONTENT_TYPE, "application/json")], desk.send(json).await?).into_response(),
        None => StatusCode::NOT_MODIFIED.into_response(),
    };
    let headers = response.headers_mut();
    headers.extend(made.version.parse().map(|version| (ETAG, version)));
    headers.extend(made.refresh_s.map(|seconds| (REFRESH, seconds.into())));
    Ok(response)
}

/// What a page is wanted of.
enum Request {
    Runs(Vec<String>),
    Experiment(String),
}

impl Request {
    fn of(query: Option<&str>) -> Result<Self, ApiError> {
        let params = Params::of(query, &["run", "experiment"])?;
        let runs: Vec<String> = params.all("run").into_iter().map(str::to_owned).collect();
        match (runs.len(), params.optional("experiment")?) {
            (0, Some(experiment)) => Ok(Request::Experiment(experiment.to_owned())),
            (1..=MOST_COMPARED, None) => Ok(Request::Runs(runs)),
            (1.., None) => Err(ApiError::bad_request(format!("at most {MOST_COMPARED} runs are compared"))),
            _ => Err(ApiError::bad_request("either run, once or several times, or experiment is needed")),
        }
    }

    fn key(&self) -> String {
        match self {
            Request::Runs(runs) => format!("runs {}", runs.join("\0")),
            Request::Experiment(id) => format!("experiment {id}"),
        }
    }
}

/// A page; without JSON if the client has it.
struct MadePage {
    version: String,
    json: Option<Bytes>,
    refresh_s: Option<u64>,
}

impl App {
    fn page(&self, request: &Request, known: Option<&str>) -> Result<MadePage, ApiError> {
        match request {
            Request::Runs(names) => {
                let runs = names.iter().map(|name| self.run(name)).collect::<Result<Vec<ReadableRun>, ApiError>>()?;
                let refresh_s = runs.iter().filter_map(refresh_s).max();
                let version = version_of(runs.iter().map(run_version));
                self.made(request, version, known, refresh_s, || page_of_runs(&runs))
            }
            Request::Experiment(id) => {
                let (name, found) = self.runs_of_experiment(id)?;
                let version = version_of(found.iter().map(|found| file_version(&found.path)));
                self.made(request, version, known, None, || page_of_experiment(&found, id, &name))
            }
        }
    }

    fn made(
        &self,
        request: &Request,
        version: String,
        known: Option<&str>,
        refresh_s: Option<u64>,
        make: impl FnOnce() -> Result<Page, ApiError>,
    ) -> Result<MadePage, ApiError> {
        if known == Some(&version) {
            return Ok(MadePage { version, json: None, refresh_s });
        }
        let key = request.key();
        let json = match self.pages.get(&key, &version) {
            Some(json) => json,
            None => json(&make()?)?,
        };
        self.pages.put(&key, &version, &json);
        Ok(MadePage { version, json: Some(json), refresh_s })
    }

    /// The name of an experiment, and the runs of the results directory that it lies in.
    fn runs_of_experiment(&self, id: &str) -> Result<(String, Vec<FoundRun>), ApiError> {
        let list = self.tree.list();
        let experiment =
            list.experiments.iter().find(|each| each.experiment_id == id || each.name.as_deref() == Some(id));
        let experiment = experiment.ok_or_else(|| ApiError::not_found(format!("there is no experiment {id:?}")))?;
        let results = experiment.path.ancestors().nth(2).unwrap_or(self.tree.root());
        let mut found = runs_under(results)?;
        found.retain(|found| self.tree.run(&self.tree.name_of(&found.path)).is_ok());
        Ok((experiment.name.clone().unwrap_or_else(|| id.to_owned()), found))
    }
}

fn page_of_runs(runs: &[ReadableRun]) -> Result<Page, ApiError> {
    match runs {
        [ReadableRun::Finished(run)] => Ok(Page::of_run(RunPage::load(run)?)),
        [ReadableRun::Recording(_)] => Ok(Page::of_run(RunPage::load(runs[0].dir())?.while_recording())),
        runs => {
            let source = |run: &ReadableRun| -> Result<CompareSource, ApiError> {
                Ok(CompareSource { facts: RunResults::load(run.dir())?, is_named: true })
            };
            let sources = runs.iter().map(source).collect::<Result<Vec<CompareSource>, ApiError>>()?;
            Ok(Page::of_comparison(&compare(&sources)?)?)
        }
    }
}

/// Runs that cannot be read are left out, as those are that do not count.
fn page_of_experiment(found: &[FoundRun], id: &str, name: &str) -> Result<Page, ApiError> {
    let readable = found.iter().filter_map(|found| found.run.as_ref().ok());
    let facts: Vec<RunResults> = readable.filter_map(|run| RunResults::load(run).ok()).collect();
    let options = AggregateOptions { columns: Vec::new(), experiment: Some(id.to_owned()), include: Vec::new() };
    // One of which no run counts is a page too: it says which were left out and why.
    let aggregate = aggregate(&facts, &options)?;
    Ok(Page::of_experiment_named(&aggregate, id, name))
}

fn refresh_s(run: &ReadableRun) -> Option<u64> {
    match run {
        ReadableRun::Finished(_) => None,
        ReadableRun::Recording(snapshot) => Some(snapshot.longest_age().as_secs() + 1),
    }
}

/// One version of several.
fn version_of(parts: impl Iterator<Item = String>) -> String {
    let digest = Sha256::digest(parts.collect::<Vec<String>>().join("\n"));
    let hex = digest.iter().take(16).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("\"{hex}\"")
}

fn run_version(run: &ReadableRun) -> String {
    match run {
        ReadableRun::Finished(run) => file_version(run.path()),
        ReadableRun::Recording(snapshot) => format!("{:?} recording {}", run.dir().path(), snapshot.number()),
    }
}

/// Changes with the files that a page is made from.
fn file_version(path: &Path) -> String {
    let stamp = |name: &str| {
        let found = fs::metadata(path.join(name)).ok()?;
        let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((found.len(), changed.as_nanos()))
    };
    let stamps = ["raw/STATE", "metadata.json", "metrics.csv", "overview.json", "manifest.json"].map(stamp);
    format!("{path:?} {stamps:?}")
}
