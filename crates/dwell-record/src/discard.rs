use std::fs;

use dwell_store::RunDir;

/// Removes the directory of a run in which nothing was computed, and that of its model if it holds no other run.
pub fn discard_run(run: &RunDir) {
    // What cannot be removed does no harm: it is marked as a run that was not finished.
    let _ = fs::remove_dir_all(run.path());
    if let Some(model_dir) = run.path().parent() {
        let _ = fs::remove_dir(model_dir);
    }
}
