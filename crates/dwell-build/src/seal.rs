//! The last step of everything that makes a run: recording, recovery, importing, relabelling.

use std::path::Path;

use dwell_analysis::MetricsReport;
use dwell_files::write_json_atomically;
use dwell_metadata::RunMetadata;
use dwell_store::{ResultsManifest, RunDir, RunState, StoreError, write_manifest};

use crate::manifest_row::run_row;

/// What is known about a run whose tables are written.
pub(crate) struct Seal<'a> {
    /// Its metadata. Version, names and state are filled in.
    pub(crate) metadata: RunMetadata,
    /// Its metrics, for the row of the run; none if none were computed.
    pub(crate) metrics: Option<&'a MetricsReport>,
    /// [`RunState::Complete`], or [`RunState::Partial`] if something that should be there is missing.
    pub(crate) state: RunState,
    /// The folder of results whose `manifest.csv` gets a row; none for a run that lies elsewhere.
    pub(crate) results: Option<&'a Path>,
}

impl Seal<'_> {
    /// Makes a directory with tables a finished run, and returns the metadata as written.
    ///
    /// A process may be killed between any two steps, so their order is fixed. The manifest covers all other files and
    /// comes after them. The marker comes last: a run in its final state has a manifest and a row. A run that was killed
    /// before is not in its final state, and `dwell recover` builds and seals it again; every step may be repeated.
    pub(crate) fn apply(self, run: &RunDir) -> Result<RunMetadata, StoreError> {
        let metadata = RunMetadata {
            metadata_schema_version: RunMetadata::VERSION.to_owned(),
            run_id: run.run_id().to_owned(),
            model_id: run.model_id().to_owned(),
            state: self.state.name().to_owned(),
            ..self.metadata
        };
        write_json_atomically(&run.metadata_json(), &metadata)?;
        write_manifest(run)?;
        if let Some(results) = self.results {
            ResultsManifest::open(results).record(&run_row(run, &metadata, self.metrics))?;
        }
        run.set_state(self.state)?;
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::fs;

    use dwell_events::schema::{Table, loss};
    use dwell_store::{TableWriter, verify};

    use super::*;

    /// A run whose tables are written.
    fn built(results: &Path) -> RunDir {
        let run = RunDir::create(results, "model", "run").unwrap();
        let mut table = TableWriter::create(run.path(), Table::Loss).unwrap();
        table.write(&loss::batch(&[])).unwrap();
        table.finish().unwrap();
        run.set_state(RunState::Building).unwrap();
        run
    }

    fn seal(run: &RunDir, results: &Path, state: RunState) -> Result<RunMetadata, StoreError> {
        let metadata = RunMetadata { engine: "llama_cpp".to_owned(), ..RunMetadata::default() };
        Seal { metadata, metrics: None, state, results: Some(results) }.apply(run)
    }

    fn state_of(run: &RunDir) -> RunState {
        run.marker().unwrap().unwrap().state
    }

    #[test]
    fn a_sealed_run_verifies_has_a_row_and_says_its_state_everywhere() {
        let results = tempfile::tempdir().unwrap();
        let run = built(results.path());
        let written = seal(&run, results.path(), RunState::Partial).unwrap();
        assert!(verify(run.path(), &Table::ALL).unwrap().is_ok());
        assert_eq!(state_of(&run), RunState::Partial);
        let read = RunMetadata::parse(&run.read_metadata_json().unwrap().unwrap(), &run.metadata_json()).unwrap();
        assert_eq!((&read, read.state.as_str(), read.run_id.as_str()), (&written, "partial", "run"));
        let rows = ResultsManifest::open(results.path()).rows().unwrap();
        assert_eq!((rows.len(), rows[0].state.as_str(), rows[0].path.as_str()), (1, "partial", "model/run"));
    }

    #[test]
    fn a_run_whose_seal_stopped_at_any_step_is_not_finished_and_can_be_sealed_again() {
        for step in 0..3 {
            let results = tempfile::tempdir().unwrap();
            let run = built(results.path());
            let obstacle =
                [run.metadata_json(), run.manifest_json(), results.path().join("manifest.csv")][step].clone();
            fs::create_dir(&obstacle).unwrap();
            seal(&run, results.path(), RunState::Complete).unwrap_err();
            assert_eq!(state_of(&run), RunState::Building, "{obstacle:?}");
            let is_whole = |path: std::path::PathBuf| path.is_file();
            assert_eq!([run.metadata_json(), run.manifest_json()].map(is_whole), [step > 0, step > 1], "{obstacle:?}");
            fs::remove_dir(&obstacle).unwrap();
            seal(&run, results.path(), RunState::Complete).unwrap();
            assert!(verify(run.path(), &Table::ALL).unwrap().is_ok(), "{obstacle:?}");
            assert_eq!(state_of(&run), RunState::Complete, "{obstacle:?}");
            assert_eq!(ResultsManifest::open(results.path()).rows().unwrap().len(), 1, "{obstacle:?}");
        }
    }
}
