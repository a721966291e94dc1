//! Recording with a worker that computes nothing: what a session makes of each way in which a worker can end.
//!
//! The observer starts its own binary as the worker, so this program is both.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../../tests/mock_engine.rs"]
mod mock_engine;
#[path = "../../../../tests/test_program.rs"]
mod test_program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_events::engine::{Action, EngineEvent, EngineOptions, Job};
use dwell_events::{CollectorName, Hint};
use dwell_metadata::{RecordingEnd, RefusedAt, RunRecord, RunRequest, Substitute};
use dwell_record::{RecordError, RecordListener, record_run};
use dwell_records::TRACED_VARIABLE;
use dwell_ring::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE};
use dwell_store::{RunDir, RunState};
use test_program::{run_tests, tests};

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|command| command == "worker") {
        let ring_dir = PathBuf::from(std::env::var_os(RING_DIR_VARIABLE).unwrap());
        let observer_pid = std::env::var(OBSERVER_PID_VARIABLE).unwrap().parse().unwrap();
        return mock_engine::work(&ring_dir, observer_pid, std::env::var_os(TRACED_VARIABLE).is_some());
    }
    run_tests(tests![
        a_worker_that_does_its_job_leaves_streams_to_build_from,
        the_listener_hears_every_event_in_order,
        a_worker_that_fails_before_it_computed_leaves_nothing,
        a_worker_that_dies_before_it_computed_leaves_nothing,
        a_worker_that_fails_later_leaves_a_run_with_its_words,
        a_worker_that_dies_later_leaves_a_run_that_says_how,
        an_interruption_ends_a_worker_that_goes_on_and_keeps_the_run,
        an_interruption_before_the_start_leaves_nothing,
        a_substitute_takes_the_place_of_a_collector_that_cannot_begin,
        a_collector_that_cannot_begin_without_a_substitute_is_an_error,
    ])
}

/// Keeps what it hears; may interrupt after a number of tokens.
#[derive(Default)]
struct Listener<'a> {
    events: Vec<EngineEvent>,
    interrupt_after: Option<(usize, &'a AtomicBool)>,
    was_told: bool,
}

impl RecordListener for Listener<'_> {
    fn engine_event(&mut self, event: &EngineEvent) {
        self.events.push(event.clone());
        if let Some((tokens, flag)) = self.interrupt_after.filter(|(tokens, _)| self.tokens() >= *tokens) {
            assert!(tokens > 0);
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn interrupted(&mut self) {
        self.was_told = true;
    }
}

impl Listener<'_> {
    fn tokens(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, EngineEvent::Token { .. })).count()
    }
}

/// A request for this many tokens of a mock whose model says what becomes of it.
fn request(model: &str, max_tokens: u32) -> RunRequest {
    let sequences = vec![0];
    let prompt = Action::Prompt { text: "hello".to_owned(), sequences: sequences.clone(), fill_to_tokens: None };
    let options = EngineOptions::new(PathBuf::from(format!("{model}.gguf")));
    let job = Job::embedded(options, vec![prompt, Action::Generate { max_tokens, sequences }]);
    // As 0.1.0 wrote it, which stays readable.
    let request = serde_json::json!({"job": job, "model_id": model, "is_traced": true, "sample_interval_ms": null,
        "command_line": ["mock"]});
    serde_json::from_value(request).unwrap()
}

struct Place {
    run: RunDir,
    _dir: tempfile::TempDir,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    Place { run: RunDir::create(dir.path(), "model", "run").unwrap(), _dir: dir }
}

/// Records a run to its end.
fn record(model: &str, max_tokens: u32) -> (Place, Result<RecordingEnd, RecordError>, usize) {
    let place = place();
    let mut listener = Listener::default();
    let facts = record_run(&place.run, &request(model, max_tokens), &AtomicBool::new(false), &mut listener);
    let tokens = listener.tokens();
    (place, facts, tokens)
}

fn state(place: &Place) -> RunState {
    place.run.marker().unwrap().unwrap().state
}

fn names_in(raw: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(raw).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

fn a_worker_that_does_its_job_leaves_streams_to_build_from() {
    let (place, facts, tokens) = record("works", 5);
    let facts = facts.unwrap();
    assert_eq!((facts.worker_failure, facts.is_interrupted, tokens), (None, false, 5));
    assert_eq!(state(&place), RunState::Building);
    let names = names_in(&place.run.raw());
    for name in ["STATE", RunRecord::FILE_NAME, RecordingEnd::FILE_NAME, "tensor_ops.arrows"] {
        assert!(names.iter().any(|found| found == name), "{name} is missing: {names:?}");
    }
    assert!(names.iter().all(|name| !name.ends_with(".ring")), "the ring was emptied: {names:?}");
}

fn the_listener_hears_every_event_in_order() {
    let place = place();
    let mut listener = Listener::default();
    record_run(&place.run, &request("works", 3), &AtomicBool::new(false), &mut listener).unwrap();
    let name = |event: &EngineEvent| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
    let mut expected = vec!["phase_begins", "loaded", "phase_begins"];
    expected.extend(["batch_begins", "batch_ends", "token"].repeat(3));
    expected.extend(["stopped", "finished", "phase_begins"]);
    assert_eq!(listener.events.iter().map(name).collect::<Vec<_>>(), expected);
}

fn a_worker_that_fails_before_it_computed_leaves_nothing() {
    let (place, facts, _) = record("fails-to-load", 5);
    let error = facts.unwrap_err();
    assert!(matches!(&error, RecordError::Engine { message, .. } if message.contains("found nothing")), "{error}");
    assert_eq!(error.hints(), ["use another mock"]);
    assert!(!error.leaves_a_run());
    place.run.discard();
    assert!(!place.run.path().exists());
}

fn a_worker_that_dies_before_it_computed_leaves_nothing() {
    let (_place, facts, _) = record("dies-after-0", 5);
    let error = facts.unwrap_err();
    assert!(matches!(&error, RecordError::WorkerDied { signal: Some(6), .. }), "{error:?}");
    assert!(!error.leaves_a_run());
}

fn a_worker_that_fails_later_leaves_a_run_with_its_words() {
    let (place, facts, tokens) = record("fails-after-2", 5);
    assert_eq!(facts.unwrap().worker_failure.unwrap(), "the mock failed after 2 steps");
    assert_eq!((tokens, state(&place)), (2, RunState::Building));
}

fn a_worker_that_dies_later_leaves_a_run_that_says_how() {
    let (place, facts, tokens) = record("dies-after-3", 5);
    let failure = facts.unwrap().worker_failure.unwrap();
    assert!(failure.contains("signal 6"), "{failure}");
    assert_eq!((tokens, state(&place)), (3, RunState::Building));
}

fn an_interruption_ends_a_worker_that_goes_on_and_keeps_the_run() {
    let (place, flag) = (place(), AtomicBool::new(false));
    let mut listener = Listener { interrupt_after: Some((2, &flag)), ..Listener::default() };
    let facts = record_run(&place.run, &request("hangs-after-2", 5), &flag, &mut listener).unwrap();
    assert!(facts.is_interrupted && listener.was_told);
    assert_eq!((listener.tokens(), state(&place)), (2, RunState::Building));
}

fn an_interruption_before_the_start_leaves_nothing() {
    let (place, flag) = (place(), AtomicBool::new(true));
    let facts = record_run(&place.run, &request("hangs-after-0", 5), &flag, &mut Listener::default());
    let error = facts.unwrap_err();
    assert!(matches!(error, RecordError::Interrupted), "{error:?}");
    assert!(!error.leaves_a_run());
}

/// A request for `kv_events` with an address at which nobody can publish: its check passes, and it cannot begin.
fn request_with_bad_address(substitutes: &[(&str, serde_json::Value)]) -> RunRequest {
    let mut request = request("works", 3);
    // Nobody waits for a server that runs already.
    request.job.server.url = Some("http://127.0.0.1:1".to_owned());
    let settings = serde_json::json!({"endpoint": "nonsense", "topic": "", "keeps_token_ids": false});
    request.collectors.add(CollectorName::KV_EVENTS, settings);
    let substitute = |(name, settings): &(&str, serde_json::Value)| Substitute {
        collector: (*name).to_owned(),
        settings: settings.clone(),
    };
    request.substitutes = substitutes.iter().map(substitute).collect();
    request
}

fn a_substitute_takes_the_place_of_a_collector_that_cannot_begin() {
    let place = place();
    // The settings of the first are not its own, so it cannot begin either; `tensor_ops` watches anyway.
    let substitutes = [
        ("process", serde_json::json!({})),
        ("pressure", serde_json::json!({"sample_interval_ms": 100})),
        ("tensor_ops", serde_json::json!({})),
    ];
    let request = request_with_bad_address(&substitutes);
    record_run(&place.run, &request, &AtomicBool::new(false), &mut Listener::default()).unwrap();
    let text = std::fs::read_to_string(place.run.raw().join(RunRecord::FILE_NAME)).unwrap();
    let record: RunRecord = serde_json::from_str(&text).unwrap();
    let found = &record.request;
    assert!(!found.collectors.has(CollectorName::KV_EVENTS) && !found.collectors.has(CollectorName::PROCESS));
    assert!(found.collectors.has(CollectorName::of("pressure")));
    let refused: Vec<(&str, RefusedAt)> =
        found.refusals.iter().map(|refusal| (refusal.collector.as_str(), refusal.at)).collect();
    assert_eq!(refused, [("kv_events", RefusedAt::Begin), ("process", RefusedAt::Begin)]);
    assert!(found.refusals[0].reason.contains("nonsense"), "{:?}", found.refusals);
    assert_eq!((found.fallbacks[0].wanted.as_str(), found.fallbacks[0].instead.as_str()), ("kv_events", "pressure"));
    assert!(place.run.raw_stream("pressure").exists());
}

fn a_collector_that_cannot_begin_without_a_substitute_is_an_error() {
    for substitutes in [&[][..], &[("process", serde_json::json!({}))]] {
        let place = place();
        let request = request_with_bad_address(substitutes);
        let error = record_run(&place.run, &request, &AtomicBool::new(false), &mut Listener::default()).unwrap_err();
        assert!(error.to_string().contains("nonsense") && !error.leaves_a_run(), "{error}");
    }
}
