//! What a command that ran into a fault must and must not say and leave.

use std::process::Output;

use crate::common::{Run, Workplace, dwell, text_of};

/// The command was not done: exit code 2, one `error:` line with this text, and these hints.
pub fn assert_refused(output: &Output, error: &str, hints: &[&str]) {
    let said = text_of(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "an error has no result: {said}");
    assert_no_panic(output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(&errors[..], [only] if only.contains(error)), "needed the error {error:?}: {said}");
    for hint in hints {
        let is_hint = |line: &str| line.starts_with("hint: ") && line.contains(hint);
        assert!(stderr.lines().any(is_hint), "needed the hint {hint:?}: {said}");
    }
}

pub fn assert_no_panic(output: &Output) {
    assert!(!text_of(output).contains("panicked"), "{}", text_of(output));
}

/// No run, not even an empty folder of its model.
pub fn assert_nothing_is_left(work: &Workplace) {
    let results = work.path().join("results");
    let left: Vec<_> = std::fs::read_dir(&results).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The run is finished and marked as one with these losses; all of its tables can be read and its manifest fits.
pub fn assert_partial(run: &Run, losses: &[&str]) {
    assert_eq!(run.metadata()["state"], "partial");
    assert_eq!(state_of(run), "partial");
    let found = run.losses();
    for loss in losses {
        assert!(found.iter().any(|(kind, count)| kind == loss && *count > 0), "needed the loss {loss}: {found:?}");
    }
    assert_sealed(run);
}

/// All tables can be read and the manifest fits.
pub fn assert_sealed(run: &Run) {
    for table in dwell_events::schema::Table::ALL {
        run.batches(table);
    }
    let output = dwell().arg("verify").arg(&run.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
}

pub fn has_loss(run: &Run, kind: &str) -> bool {
    run.losses().iter().any(|(found, _)| found == kind)
}

/// How far a run has come, from its marker.
pub fn state_of(run: &Run) -> String {
    let marker = std::fs::read(run.dir.join("raw/STATE")).unwrap();
    serde_json::from_slice::<serde_json::Value>(&marker).unwrap()["state"].as_str().unwrap().to_owned()
}

/// `dwell recover` on a run.
pub fn recover(run: &Run) -> Output {
    dwell().arg("recover").arg(&run.dir).output().unwrap()
}

/// Recovers a run of which something is missing.
pub fn recover_partial(run: &Run) {
    let output = recover(run);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_no_panic(&output);
}
