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
