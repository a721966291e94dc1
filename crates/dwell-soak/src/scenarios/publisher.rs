//! Runs of a server that publishes what its KV cache holds: as it should, or not. The number of the trial says how.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_store::RunDir;

use super::server::{PAUSE, TOKENS, joined, pick};
use crate::finding::{Fault, Findings};
use crate::hostile_publisher::{Publishing, start_publisher};
use crate::hostile_server::{Behaviour, start_server};
use crate::lab::{Lab, Place, succeeds};
use crate::results::{self, RESULTS};
use crate::scenario::Scenario;
use crate::shape::{RunShape, row_count};

/// The engine that publishes.
const VLLM: &str = "vllm";
const BATCHES: u64 = 100;
/// Below the results.
const RUN: &str = "vllm/run";

/// A server that does as it is asked, and publishers beside it.
pub(crate) struct Publisher {
    url: String,
    endpoints: Vec<String>,
    whole: RunShape,
    took: Duration,
}

impl Publisher {
    pub(crate) fn measured(lab: &Lab) -> anyhow::Result<Self> {
        let url = start_server(Behaviour::Good { tokens: TOKENS, pause: PAUSE })?;
        let good = Publishing::Good { batches: BATCHES, pause: PAUSE };
        // Every other one is good, so that as much is known of what must not be lost as of what must not do harm.
        let all = Publishing::HOSTILE.into_iter().flat_map(|hostile| [good, hostile]);
        let endpoints: Vec<String> = all.map(start_publisher).collect::<Result<_, _>>()?;
        let place = Place::make(lab.path().join("reference-publisher"), "reference".to_owned())?;
        let mut command = joined(lab, &place, &[], (VLLM, &url), TOKENS);
        command.args(["--kv-events", &endpoints[0]]);
        let took = succeeds(command)?;
        let results = place.path().join(RESULTS);
        anyhow::ensure!(blocks(&results) == BATCHES, "the undisturbed run has {} blocks", blocks(&results));
        Ok(Self { url, endpoints, whole: RunShape::read(&results.join(RUN))?, took })
    }
}

/// Rows of the table of blocks of a tree's run.
fn blocks(results: &Path) -> u64 {
    row_count(&results.join(RUN), Table::KvBlockLifecycle)
}

impl Scenario for Publisher {
    fn name(&self) -> &'static str {
        "publisher"
    }

    fn command(&self, lab: &Lab, place: &Place, behind: &[String], _attempt: u32) -> Command {
        let mut command = joined(lab, place, behind, (VLLM, &self.url), TOKENS);
        command.args(["--kv-events", &self.endpoints[pick(place, self.endpoints.len())]]);
        command
    }

    fn duration(&self) -> Duration {
        self.took
    }

    fn flushed(&self) -> Option<&Path> {
        Some(Path::new(RESULTS))
    }

    fn repair(&self, lab: &Lab, place: &Place) -> Option<Command> {
        results::recovery(lab, place)
    }

    fn check(&self, lab: &Lab, place: &Place, flushed: Option<&Path>, findings: &mut Findings) {
        results::check(lab, place, &|_: &RunDir| self.whole.clone(), findings);
        let Some(flushed) = flushed else { return };
        results::check_flushed(lab, place, "the run", flushed, findings);
        // A run of a server that ends before its first token is none, and leaves nothing.
        if row_count(&flushed.join(RUN), Table::Tokens) == 0 {
            return;
        }
        let (before, after) = (blocks(flushed), blocks(&place.path().join(RESULTS)));
        findings.need(after >= before, Fault::Lost, || format!("{after} blocks, and {before} had been flushed"));
    }
}
