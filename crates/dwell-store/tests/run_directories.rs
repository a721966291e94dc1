//! Making, opening and marking run directories.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dwell_events::Hint;
use dwell_files::{FileError, ensure_space};
use dwell_store::{RunDir, RunState, StoreError};

#[test]
fn a_new_run_is_marked_as_being_recorded_and_opens_again() {
    let root = tempfile::tempdir().unwrap();
    let run = RunDir::create(root.path(), "tiny", "20260203T040506Z-abcdef").unwrap();
    assert!(run.raw_stream("records").ends_with("tiny/20260203T040506Z-abcdef/raw/records.arrows"));
    run.set_state(RunState::Building).unwrap();
    let opened = RunDir::open(run.path()).unwrap();
    assert_eq!((opened.model_id(), opened.run_id()), ("tiny", "20260203T040506Z-abcdef"));
    let marker = opened.marker().unwrap().unwrap();
    assert_eq!((marker.state, marker.observer_pid), (RunState::Building, std::process::id()));
    assert!(!marker.state.is_final());
}

#[test]
fn a_run_directory_that_exists_is_refused_with_a_hint() {
    let root = tempfile::tempdir().unwrap();
    RunDir::create(root.path(), "tiny", "one").unwrap();
    let error = RunDir::create(root.path(), "tiny", "one").unwrap_err();
    assert!(error.to_string().starts_with("creating a run directory found that it exists already: \""), "{error}");
    assert!(error.hints()[0].starts_with("it exists: ls -ld '"), "{:?}", error.hints());
}

#[test]
fn fresh_runs_never_share_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let first = RunDir::create_fresh(root.path(), "tiny").unwrap();
    let second = RunDir::create_fresh(root.path(), "tiny").unwrap();
    assert_ne!(first.path(), second.path());
}

#[test]
fn a_discarded_run_takes_along_the_empty_folders_that_were_made_for_it() {
    let root = tempfile::tempdir().unwrap();
    RunDir::create(&root.path().join("a/results"), "tiny", "one").unwrap().discard();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);

    let own = root.path().join("own");
    fs::create_dir(&own).unwrap();
    let first = RunDir::create(&own, "tiny", "one").unwrap();
    RunDir::create(&own, "tiny", "two").unwrap().discard();
    assert!(first.path().exists() && !own.join("tiny/two").exists());
    first.discard();
    assert!(own.exists() && !own.join("tiny").exists(), "the folder was there before");
}

#[test]
fn names_that_would_leave_the_results_directory_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for name in ["", "..", "a/b", "/etc", "-rf", ".hidden", "a\nb"] {
        let error = RunDir::create(root.path(), name, "one").unwrap_err();
        assert!(matches!(error, StoreError::UnusableName { what: "model id", .. }), "{name:?}: {error}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_no_run_is_refused() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(RunDir::open(root.path()), Err(StoreError::NotARun { .. })));
    assert!(matches!(RunDir::open(&root.path().join("absent")), Err(StoreError::File(FileError::NotFound { .. }))));
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(RunDir::open(&file), Err(StoreError::NotARun { .. })));
}

#[test]
fn a_directory_with_tables_from_elsewhere_opens_under_its_own_name() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("other-model").join("run-1");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("trace.parquet"), "").unwrap();
    let run = RunDir::open(&dir).unwrap();
    assert_eq!((run.model_id(), run.run_id()), ("other-model", "run-1"));
    assert_eq!(run.marker().unwrap(), None);
}

#[test]
fn a_damaged_state_marker_is_named() {
    let root = tempfile::tempdir().unwrap();
    let run = RunDir::create(root.path(), "tiny", "one").unwrap();
    fs::write(run.raw().join("STATE"), "{").unwrap();
    let error = RunDir::open(run.path()).unwrap_err();
    assert!(error.to_string().starts_with("reading the state of a run found JSON that does not fit"), "{error}");
}

#[test]
fn a_results_directory_that_may_not_be_written_is_a_permission_error() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::create_dir(root.path().join("probe")).is_ok() {
        // Permission bits do not bind this user; sysfs refuses everyone.
        let error = RunDir::create(Path::new("/sys/kernel"), "tiny", "one").unwrap_err();
        assert!(matches!(error, StoreError::File(FileError::PermissionDenied { .. })), "{error}");
        return;
    }
    let error = RunDir::create(root.path(), "tiny", "one").unwrap_err();
    assert!(matches!(error, StoreError::File(FileError::PermissionDenied { .. })), "{error}");
    assert!(error.hints()[0].contains("ls -ld"));
}

#[test]
fn too_little_free_space_is_refused_with_both_numbers() {
    let root = tempfile::tempdir().unwrap();
    ensure_space(root.path(), 1).unwrap();
    let error = ensure_space(root.path(), u64::MAX).unwrap_err();
    let FileError::NotEnoughSpace { available_bytes, needed_bytes, .. } = &error else { panic!("{error}") };
    assert!(*available_bytes > 0 && *needed_bytes == u64::MAX);
    assert!(error.hints()[0].contains("df -h"));
}

#[test]
fn a_run_is_made_although_others_take_the_models_empty_folder_away() {
    let root = tempfile::tempdir().unwrap();
    let model = root.path().join("tiny");
    let is_done = AtomicBool::new(false);
    let failures = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = fs::remove_dir(&model);
                // Often enough to hit the moment, seldom enough to leave one.
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        let create = |number: u32| {
            let run = RunDir::create(root.path(), "tiny", &number.to_string())?;
            fs::remove_dir_all(run.path()).unwrap();
            Ok(())
        };
        let failures: Vec<StoreError> = (0..100).filter_map(|number| create(number).err()).collect();
        is_done.store(true, Ordering::Relaxed);
        failures
    });
    assert!(failures.is_empty(), "{failures:?}");
}
