//! The trial of the collector `tensor_ops`: a small model is run and recorded.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dwell_build::{BuildSetup, build_run};
use dwell_collectors::{TrialFailure, Wanted, chosen};
use dwell_events::engine::{Action, EngineOptions, Job};
use dwell_events::{CollectorName, Hint};
use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_metadata::{BuildOptions, RunRequest};
use dwell_record::{RecordError, record_run};
use dwell_store::{RunDir, StoreError, new_run_id};

use crate::run_process::TaskError;

/// Name of the hidden folder of a trial, before the id of its process.
const PLACE_PREFIX: &str = ".dwell-probe-";

/// Runs a small model for one token in a hidden folder of `folder`, and counts the accesses that come back. Nothing of
/// it is left.
pub fn run_small_model(folder: &Path) -> Result<u64, TrialFailure> {
    remove_left_behind(folder);
    let place = folder.join(format!("{PLACE_PREFIX}{}-{}", std::process::id(), new_run_id()));
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let accesses = record_small_model(&place);
    let _ = fs::remove_dir_all(&place);
    for made in missing {
        // One that somebody has put something into meanwhile stays.
        let _ = fs::remove_dir(made);
    }
    accesses.map_err(|error| TrialFailure { message: error.to_string(), hint: error.hints().into_iter().next() })
}

/// Removes the folders of trials whose process was killed.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PLACE_PREFIX)) else { continue };
        let pid = rest.split('-').next().and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid: u32| !Path::new(&format!("/proc/{pid}")).exists()) {
            // What cannot be removed does no harm but take space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn record_small_model(place: &Path) -> Result<u64, TaskError> {
    let action = "making a folder for a trial";
    fs::create_dir_all(place).map_err(|error| StoreError::from_io(action, place, error))?;
    let model = place.join("small.gguf");
    let unmade = |reason: String| RecordError::Engine {
        message: format!("making a small model failed: {reason}"),
        hints: Vec::new(),
    };
    let spec = MakeSpec { layers: 1, embedding: 64, feed_forward: 64, vocabulary: 300, ..MakeSpec::default() };
    let plan = MakePlan::new(spec).map_err(|error| unmade(error.to_string()))?;
    make(&plan, &model, Overwrite::Allow, &mut |_| {}).map_err(|error| unmade(error.to_string()))?;
    let run = RunDir::create(&place.join("results"), "small", "probe")?;
    record_run(&run, &request(&model), &AtomicBool::new(false), &mut dwell_record::NoListener)?;
    let built = build_run(&run, &BuildSetup::drawing(&[]), &mut dwell_build::NoListener)?;
    Ok(built.metrics.trace_rows)
}

fn request(model: &Path) -> RunRequest {
    let options =
        EngineOptions { context_length: 256, threads: 1, ignore_end: true, ..EngineOptions::new(model.to_owned()) };
    let sequences = vec![0];
    let actions = vec![
        Action::Prompt { text: "a".to_owned(), sequences: sequences.clone(), fill_to_tokens: None },
        Action::Generate { max_tokens: 1, sequences },
    ];
    RunRequest {
        job: Job::embedded(options, actions),
        model_id: "small".to_owned(),
        collectors: chosen(&[CollectorName::TENSOR_OPS], &Wanted::default()),
        baseline_ms: 0,
        sensor_interval_ms: 1000,
        command_line: Vec::new(),
        build: BuildOptions { draws_figures: false, ..BuildOptions::default() },
        experiment: None,
        fallbacks: Vec::new(),
        refusals: Vec::new(),
        substitutes: Vec::new(),
        untraced: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_trial_left_is_removed_and_what_a_running_one_uses_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!("{PLACE_PREFIX}{}-a", std::process::id());
        // No process has this id: the kernel gives at most 2^22.
        let names = [own.as_str(), ".dwell-probe-4999999-b", "model", ".hidden"];
        names.iter().for_each(|name| fs::create_dir_all(dir.path().join(name).join("results")).unwrap());
        remove_left_behind(dir.path());
        assert_eq!(names.map(|name| dir.path().join(name).exists()), [true, false, true, true]);
    }
}
