//! Relabelling with known truth: a few sampled accesses, and whose memory each must be.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/small_trace.rs"]
mod small_trace;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dwell_build::{BuildError, RelabelReport, RelabelRequest, relabel_run};
use dwell_events::schema::Table;
use dwell_events::{Phase, UnknownPolicy};
use dwell_label::RuleSet;
use dwell_store::{RunDir, RunState, verify};
use small_trace::SmallTrace;

/// Two pages of weights and one of the cache, by the functions that write them; one page that nothing tells about.
fn trace() -> SmallTrace {
    SmallTrace::new()
        .phase(Phase::WeightLoad)
        .store("memcpy", 0x10_000)
        .store("load_all_data", 0x11_000)
        .phase(Phase::Generation)
        .store("ggml_compute_forward_set_rows", 0x20_000)
        .load("nobody", 0x10_008)
        .load("nobody", 0x11_008)
        .load("nobody", 0x20_008)
        .load("nobody", 0x30_000)
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("in")).unwrap();
        trace().write(&place.path("in"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn relabel(&self, rules: RuleSet, policy: UnknownPolicy) -> Result<RelabelReport, BuildError> {
        let (input, output) = (self.path("in/trace.parquet"), self.path("out"));
        relabel_run(&RelabelRequest { input, output, rules, policy, analysis: Default::default() }, &mut |_| {})
    }
}

fn counts(found: &BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    found.iter().map(|(name, rows)| (*name, *rows)).collect()
}

#[test]
fn a_page_belongs_to_whoever_a_rule_saw_writing_it() {
    let place = Place::new();
    let report = place.relabel(RuleSet::default_rules(), UnknownPolicy::Keep).unwrap();
    assert_eq!((report.rows_in, report.rows_out, report.dropped, report.late), (7, 7, 0, 0));
    assert_eq!(report.before, BTreeMap::from([("unknown".to_owned(), 7)]));
    let after: Vec<_> = counts(&report.after).into_iter().filter(|(_, rows)| *rows > 0).collect();
    assert_eq!(after, [("kv_cache", 2), ("unknown", 1), ("weight", 4)]);
    let decided: Vec<_> = counts(&report.decided_by).into_iter().filter(|(_, rows)| *rows > 0).collect();
    assert_eq!(decided, [("nothing", 1), ("page", 3), ("rule", 3)]);
    assert_eq!(report.state, RunState::Complete);
    let checked = verify(&report.run_dir, &Table::ALL).unwrap();
    assert!(checked.is_ok(), "{checked:?}");
}

#[test]
fn what_nothing_could_label_is_dropped_and_counted_if_asked_for() {
    let place = Place::new();
    let report = place.relabel(RuleSet::default_rules(), UnknownPolicy::Skip).unwrap();
    assert_eq!((report.rows_in, report.rows_out, report.dropped), (7, 6, 1));
}

#[test]
fn without_rules_nothing_is_labelled_and_an_error_leaves_nothing() {
    let place = Place::new();
    let none = || RuleSet::from_yaml("version: 1\nrules: []\n", Path::new("rules.yaml")).unwrap();
    assert!(place.relabel(none(), UnknownPolicy::Error).is_err());
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["in"]);
    let report = place.relabel(none(), UnknownPolicy::Keep).unwrap();
    assert_eq!((report.rows_out, report.after["unknown"]), (7, 7));
}

#[test]
fn what_a_killed_relabelling_left_does_not_stand_in_the_way() {
    let place = Place::new();
    let left = RunDir::create(&place.path("out.partial"), "model", "run").unwrap();
    let relabel = || place.relabel(RuleSet::default_rules(), UnknownPolicy::Keep);
    assert!(relabel().is_err(), "this process, which is at work on it, runs");
    let state = left.path().join("raw/STATE");
    let marker = fs::read_to_string(&state).unwrap();
    // No process has this id.
    fs::write(&state, marker.replace(&std::process::id().to_string(), "4194305")).unwrap();
    relabel().unwrap();
    assert!(place.path("out").is_dir() && !place.path("out.partial").exists());
}
