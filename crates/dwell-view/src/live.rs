//! Runs that are being recorded: what they have so far, built aside.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use dwell_build::{BuildError, build_snapshot, is_running_dwell};
use dwell_store::RunDir;
use tempfile::TempDir;

use crate::error::ApiError;

/// How often a run is looked at at most.
const LEAST_AGE: Duration = Duration::from_secs(2);

/// A snapshot is used for so many times as long as it took to build: following takes a fifth of a core at most.
const AGE_PER_COST: u32 = 4;

/// A snapshot that nobody asked for in this time is removed.
const LONGEST_UNUSED: Duration = Duration::from_secs(60);

/// How long the first request waits for a run that has just begun.
const LONGEST_FIRST_WAIT: Duration = Duration::from_secs(2);
const FIRST_WAIT_STEP: Duration = Duration::from_millis(20);

/// A run as it can be read now.
pub(crate) enum ReadableRun {
    /// It is finished.
    Finished(RunDir),
    /// It goes on; this is what it had a moment ago.
    Recording(Arc<Snapshot>),
}

impl ReadableRun {
    /// Where its tables are.
    pub(crate) fn dir(&self) -> &RunDir {
        match self {
            ReadableRun::Finished(run) => run,
            ReadableRun::Recording(snapshot) => &snapshot.run,
        }
    }
}

/// What a run had at one time.
pub(crate) struct Snapshot {
    run: RunDir,
    /// Tells it from earlier ones.
    number: u64,
    built_at: Instant,
    cost: Duration,
    /// Removes the files with the last user.
    _folder: TempDir,
}

impl Snapshot {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How long it is used.
    pub(crate) fn longest_age(&self) -> Duration {
        LEAST_AGE.max(self.cost * AGE_PER_COST)
    }
}

/// The newest snapshot of each run that was asked for.
#[derive(Default)]
pub(crate) struct LiveRuns(Mutex<BTreeMap<PathBuf, Kept>>);

struct Kept {
    snapshot: Arc<Snapshot>,
    asked_at: Instant,
}

impl LiveRuns {
    /// A run, whether it is finished or goes on.
    pub(crate) fn readable(&self, run: RunDir) -> Result<ReadableRun, ApiError> {
        match run.marker()? {
            Some(marker) if !marker.state.is_final() => {
                if !is_running_dwell(marker.observer_pid) {
                    return Err(killed(run.path()));
                }
                self.snapshot(&run).map(ReadableRun::Recording)
            }
            _ => Ok(ReadableRun::Finished(run)),
        }
    }

    /// One client builds a snapshot, the others wait for it.
    fn snapshot(&self, run: &RunDir) -> Result<Arc<Snapshot>, ApiError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.asked_at.elapsed() < LONGEST_UNUSED);
        let last = kept.get(run.path()).map(|kept| kept.snapshot.clone());
        let snapshot = match last {
            Some(last) if last.built_at.elapsed() < last.longest_age() => last,
            last => Arc::new(build(run, last.map_or(0, |last| last.number) + 1)?),
        };
        kept.insert(run.path().to_owned(), Kept { snapshot: snapshot.clone(), asked_at: Instant::now() });
        Ok(snapshot)
    }
}

fn build(run: &RunDir, number: u64) -> Result<Snapshot, ApiError> {
    let begun_at = Instant::now();
    let no_room = |error| ApiError::unreadable(format!("making a folder for what is recorded failed with {error}"));
    // It holds prompts and answers, which nobody else on the machine may read.
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("dwell-view-").permissions(private).tempdir().map_err(no_room)?;
    let run = first_snapshot(run, folder.path()).map_err(|error| match error {
        BuildError::NothingRecorded { .. } => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the run has begun, and nothing is recorded yet")
                .hint("ask again in a moment")
        }
        error => {
            let place = std::env::temp_dir();
            ApiError::unreadable(format!("building what is recorded so far failed: {error}"))
                .hint(format!("it is built in a temporary folder; see its space with `df -h '{}'`", place.display()))
        }
    })?;
    Ok(Snapshot { run, number, built_at: Instant::now(), cost: begun_at.elapsed(), _folder: folder })
}

/// A snapshot as soon as there is one: for an instant, a run has a folder and no record of what is recorded.
fn first_snapshot(run: &RunDir, folder: &Path) -> Result<RunDir, BuildError> {
    let begun_at = Instant::now();
    loop {
        match build_snapshot(run, folder) {
            Err(BuildError::NothingRecorded { .. }) if begun_at.elapsed() < LONGEST_FIRST_WAIT => {
                thread::sleep(FIRST_WAIT_STEP);
            }
            outcome => return outcome,
        }
    }
}

fn killed(path: &Path) -> ApiError {
    ApiError::unreadable(format!("this run was killed before it was finished: {path:?}"))
        .hint(format!("finish it with `dwell recover '{}'`", path.display()))
}
