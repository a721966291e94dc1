//! Small made models and an observer that keeps what it is told.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use dwell_events::engine::{Action, EngineEvent, EngineOptions, Job, LoadedModel, StopReason, TimeResolution};
use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_llama::{EngineError, Hooks, JobObserver, run_job};
use tempfile::TempDir;

/// A made model in a folder of its own.
pub struct TestModel {
    folder: TempDir,
    pub path: PathBuf,
}

impl TestModel {
    pub fn new() -> TestModel {
        TestModel::of(&MakeSpec::default())
    }

    pub fn of(spec: &MakeSpec) -> TestModel {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        make(&MakePlan::new(spec.clone()).unwrap(), &path, Overwrite::Refuse, &mut |_| ()).unwrap();
        TestModel { folder, path }
    }

    /// Replaces every occurrence of some bytes in the file and says how many there were.
    pub fn patch(&self, from: &[u8], to: &[u8]) -> usize {
        assert_eq!(from.len(), to.len());
        let mut bytes = std::fs::read(&self.path).unwrap();
        let places: Vec<usize> =
            bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(i, _)| i).collect();
        for &place in &places {
            bytes[place..place + to.len()].copy_from_slice(to);
        }
        std::fs::write(&self.path, bytes).unwrap();
        places.len()
    }

    pub fn options(&self) -> EngineOptions {
        options(&self.path)
    }
}

/// Options that every test starts from: greedy, one thread, one sequence.
pub fn options(model: &Path) -> EngineOptions {
    EngineOptions {
        context_length: 512,
        batch_size: 64,
        micro_batch_size: 32,
        repack: false,
        seed: 1,
        ignore_end: true,
        time_resolution: TimeResolution::Step,
        ..EngineOptions::new(model.to_owned())
    }
}

pub fn prompt(text: &str, sequences: &[i32]) -> Action {
    Action::Prompt { text: text.to_owned(), sequences: sequences.to_vec(), fill_to_tokens: None }
}

pub fn filled_prompt(text: &str, sequences: &[i32], tokens: u32) -> Action {
    Action::Prompt { text: text.to_owned(), sequences: sequences.to_vec(), fill_to_tokens: Some(tokens) }
}

pub fn generate(max_tokens: u32, sequences: &[i32]) -> Action {
    Action::Generate { max_tokens, sequences: sequences.to_vec() }
}

/// What a job told.
#[derive(Default)]
pub struct Told {
    pub events: Vec<EngineEvent>,
    /// Interrupts once this many events have come.
    pub interrupt_after: Option<usize>,
}

impl JobObserver for Told {
    fn event(&mut self, event: EngineEvent) {
        self.events.push(event);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt_after.is_some_and(|events| self.events.len() >= events)
    }
}

impl Told {
    /// Ids of the tokens generated for a sequence.
    pub fn tokens(&self, wanted: i32) -> Vec<i32> {
        let token = |event: &EngineEvent| match event {
            EngineEvent::Token { sequence, id, .. } if *sequence == wanted => *id,
            _ => None,
        };
        self.events.iter().filter_map(token).collect()
    }

    /// Why sequences ended, in the order in which they did.
    pub fn stops(&self) -> Vec<(i32, StopReason)> {
        let stop = |event: &EngineEvent| match event {
            EngineEvent::Stopped { sequence, reason } => Some((*sequence, *reason)),
            _ => None,
        };
        self.events.iter().filter_map(stop).collect()
    }

    pub fn loaded(&self) -> &LoadedModel {
        let loaded = self.events.iter().find_map(|event| match event {
            EngineEvent::Loaded { model } => Some(model),
            _ => None,
        });
        loaded.unwrap()
    }
}

/// Runs a job to its end.
pub fn run(options: EngineOptions, actions: Vec<Action>) -> Told {
    let mut told = Told::default();
    run_job(&Job::embedded(options, actions), Hooks::default(), &mut told).unwrap();
    told
}

/// Runs a job that must fail.
pub fn refuse(options: EngineOptions, actions: Vec<Action>) -> EngineError {
    let mut told = Told::default();
    run_job(&Job::embedded(options, actions), Hooks::default(), &mut told).unwrap_err()
}
