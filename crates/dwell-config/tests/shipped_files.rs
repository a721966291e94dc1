//! The files below `config` are what they say.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::path::Path;

use common::{experiment, parsed, shipped};
use dwell_config::{PlannedKind, parse_prompts};
use dwell_events::engine::KvType;

const EXPERIMENTS: [&str; 6] =
    ["default_experiment", "kv_cache_study", "kv_study", "kv_study_browser", "kv_study_quick", "tiny_experiment"];

#[test]
fn every_shipped_experiment_is_accepted_and_planned() {
    for name in EXPERIMENTS {
        let parsed = parsed(&shipped(&format!("config/{name}.yaml")));
        assert_eq!(parsed.notes, [], "{name}");
        let plan = parsed.experiment.plan(2).unwrap();
        assert_eq!(plan.runs.len() as u128, parsed.experiment.run_count());
        assert!(!plan.runs.is_empty());
    }
}

#[test]
fn every_shipped_prompt_file_is_accepted_and_there() {
    for name in EXPERIMENTS {
        let Some(file) = experiment(&shipped(&format!("config/{name}.yaml"))).prompts.file() else { continue };
        let path = Path::new("config").join(file);
        let prompts = parse_prompts(&shipped(path.to_str().unwrap()), &path).unwrap();
        assert!(!prompts.is_empty());
    }
}

#[test]
fn the_kv_study_has_every_runtime_context_and_type() {
    let all = experiment(&shipped("config/kv_study.yaml"));
    let engines: Vec<&str> = all.models.iter().map(|model| model.engine.name()).collect();
    assert_eq!(engines, ["llama_cpp", "llama_server", "ollama"]);
    assert_eq!(all.sweep.context_lengths, [1024, 2048, 4096, 8192, 16384, 32768]);
    assert_eq!(all.sweep.kv_cache_types, KvType::ALL);
    // 3 runtimes, 6 contexts, 3 types, 3 repetitions.
    assert_eq!(all.plan(2).unwrap().runs.len(), 3 * 6 * 3 * 3);
    let quick = experiment(&shipped("config/kv_study_quick.yaml"));
    assert_eq!(quick.plan(2).unwrap().runs.len(), 2 * 2 * 3);
    let in_browser = experiment(&shipped("config/kv_study_browser.yaml"));
    assert_eq!(in_browser.plan(2).unwrap().runs.len(), 4 * 3);
}

#[test]
fn the_tiny_experiment_has_the_runs_that_tests_count_on() {
    let plan = experiment(&shipped("config/tiny_experiment.yaml")).plan(2).unwrap();
    // 2 models, 2 contexts, 2 types, each with 1 warm-up and 2 repetitions.
    assert_eq!(plan.runs.len(), 2 * 2 * 2 * 3);
    let warmups = plan.runs.iter().filter(|run| matches!(run.kind, PlannedKind::Warmup(_))).count();
    assert_eq!(warmups, 8);
}
