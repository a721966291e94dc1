//! Whether collectors work, found out by doing.

use std::path::Path;

use dwell_collectors::{CheckPlace, TrialFailure, check, collector};
use dwell_events::host::{Probe, ProbeKind, ProbeStatus};
use dwell_events::{Basis, CollectorName};
use dwell_host::Root;

/// A check where a small model gives this many accesses, or does not run.
fn checked(name: CollectorName, trial: Result<u64, TrialFailure>) -> Probe {
    let run_small_model = |_: &Path| trial.clone();
    let place = CheckPlace { root: Root::default(), results: Path::new("."), run_small_model: &run_small_model };
    check(collector(name), &place)
}

#[test]
fn this_process_can_be_sampled() {
    let probe = checked(CollectorName::PROCESS, Ok(0));
    assert_eq!((probe.name, probe.kind, probe.failure()), ("process", ProbeKind::Collector, None));
    let about = collector(CollectorName::PROCESS).description();
    assert_eq!((probe.basis, probe.cost), (Some(Basis::Sampled), Some(about.cost)));
}

#[test]
fn accesses_of_a_small_model_show_that_the_recorder_works() {
    let probe = checked(CollectorName::TENSOR_OPS, Ok(80));
    assert_eq!((probe.status, probe.failure()), (ProbeStatus::Works, None));
    assert!(probe.found.contains("80 accesses"), "{probe:?}");
    let none = checked(CollectorName::TENSOR_OPS, Ok(0));
    assert_eq!(none.status, ProbeStatus::Fails);
}

#[test]
fn a_small_model_that_does_not_run_is_told_with_what_to_do() {
    let failure = TrialFailure { message: "no room".to_owned(), hint: Some("df -h".to_owned()) };
    let probe = checked(CollectorName::TENSOR_OPS, Err(failure));
    assert_eq!((probe.failure().as_deref(), probe.remedy.as_deref()), (Some("no room"), Some("df -h")));
}

#[test]
fn kv_events_need_no_more_than_a_socket() {
    assert_eq!(checked(CollectorName::KV_EVENTS, Ok(0)).failure(), None);
}

#[test]
fn pages_are_scanned_or_the_call_that_was_refused_is_named() {
    let probe = checked(CollectorName::of("pages"), Ok(0));
    match probe.status {
        ProbeStatus::Works => assert!(probe.found.contains("KiB of it were written"), "{probe:?}"),
        _ => assert!(probe.failure().is_some_and(|reason| reason.contains(" failed with ")), "{probe:?}"),
    }
}

#[test]
fn page_faults_are_sampled_or_the_refusal_is_named() {
    let probe = checked(CollectorName::of("page_faults"), Ok(0));
    match probe.status {
        ProbeStatus::Works => assert!(probe.found.contains("32 new pages touched"), "{probe:?}"),
        _ => assert!(probe.failure().is_some_and(|reason| reason.contains("perf_event_open")), "{probe:?}"),
    }
}

#[test]
fn a_machine_whose_samples_cannot_be_read_is_told_apart_from_one_without_events() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let check_there = || {
        let run_small_model = |_: &Path| Ok(0);
        let root = Root::at(place.path());
        let place = CheckPlace { root, results: Path::new("."), run_small_model: &run_small_model };
        check(collector(CollectorName::of("perf_mem")), &place).failure().expect("there is nothing to sample")
    };
    assert!(check_there().contains("has neither cpu/events/mem-loads (Intel)"));
    let unit = place.path().join("sys/bus/event_source/devices/arm_spe_0");
    std::fs::create_dir_all(&unit).expect("a folder can be made");
    std::fs::write(unit.join("type"), "9\n").expect("a file can be written");
    assert!(check_there().contains("Arm SPE"));
}
