//! The `tensor_ops` collector: every access of every computed graph, told by a recorder inside the process that computes.
//!
//! The recorder of the embedded engine writes into the [worker's ring](crate::WorkerRing), beside the engine's events.
//! Other programs have rings of their own, which are emptied here. Records become accesses in the labelling stage of
//! the build, which other sources of accesses share.

mod program_rings;

use dwell_events::engine::RecorderAccess;
use dwell_events::host::Outcome;
use dwell_events::{Basis, CollectorName, LossKind};
use dwell_metadata::{CollectorEnd, RunRecord, RunRequest};
use dwell_records::TRACED_VARIABLE;
use dwell_store::{RunDir, StoreError};
use serde_json::{Value, json};

use crate::record_stream::StreamPaths;
use crate::salvage::empty_ring;
use crate::{CheckPlace, CollectError, Collected, Collector, Description, Target, Wanted, Watching, rings};
use program_rings::ProgramRings;

const NAME: CollectorName = CollectorName::TENSOR_OPS;

/// Every access of every computed graph.
pub(crate) struct TensorOps;

impl Collector for TensorOps {
    fn description(&self) -> &'static Description {
        &Description {
            name: NAME,
            observes: "every load and store that ggml makes while it computes a graph",
            basis: Basis::Exact,
            cost: "at most 1.1 % of the speed of generation at the default resolution, and 0.6 % of the worker's CPU \
                   time in the observer",
            needs: "an engine that the recorder is linked with, or into which it can be loaded",
            tried: "a model of one layer is made, run for one token and recorded in `-o DIR`; its accesses are counted",
        }
    }

    /// Runs a small model: whether a ring can be made and accesses come back is known only afterwards.
    fn check(&self, place: &CheckPlace<'_>) -> Outcome {
        match (place.run_small_model)(place.results) {
            Ok(0) => Outcome::fails("a small model was run, and no access was recorded"),
            Ok(accesses) => Outcome::works(format!("a small model was run, and {accesses} accesses were recorded")),
            Err(failure) => {
                let outcome = Outcome::fails(failure.message);
                match failure.hint {
                    Some(hint) => outcome.remedy(hint),
                    None => outcome,
                }
            }
        }
    }

    fn cannot_watch(&self, target: &Target<'_>) -> Option<String> {
        let name = target.engine.name();
        match target.engine.profile().recorder {
            RecorderAccess::Linked => None,
            RecorderAccess::Preloaded => target
                .is_joined
                .then(|| format!("the recorder is loaded when {name} starts, and this one runs already")),
            RecorderAccess::None => Some(format!("{name} need not compute with ggml")),
        }
    }

    /// How finely it times is an option of the engine, because the worker needs it with its job.
    fn settings(&self, _: &Wanted<'_>) -> Value {
        json!({})
    }

    fn begin(&self, run: &RunDir, request: &RunRequest, _: &Value) -> Result<Box<dyn Watching>, CollectError> {
        let programs = if request.job.engine.is_embedded() {
            None
        } else {
            rings::make_programs_dir(run)?;
            Some(ProgramRings::new(rings::programs_dir(run)))
        };
        Ok(Box::new(Recording { programs }))
    }

    fn salvage(&self, run: &RunDir) -> Result<(), CollectError> {
        rings::waiting_of_programs(run).iter().try_for_each(|ring| empty_ring(ring, &StreamPaths::of_program(ring)))
    }

    fn build(&self, run: &RunDir, _: &RunRecord, collected: &mut Collected) -> Result<(), StoreError> {
        let detail = "rings that could not be read to their end";
        collected.lost(NAME, LossKind::UndecodableRecords, rings::damaged_count(run), detail);
        let detail = "processes that computed and could not make their ring";
        collected.lost(NAME, LossKind::UnrecordedGraphs, rings::not_made_count(run), detail);
        Ok(())
    }
}

/// A run whose graphs are recorded.
struct Recording {
    /// None where the worker itself computes.
    programs: Option<ProgramRings>,
}

impl Watching for Recording {
    fn worker_environment(&self) -> Vec<(&'static str, String)> {
        vec![(TRACED_VARIABLE, "1".to_owned())]
    }

    fn poll(&mut self) -> Result<bool, CollectError> {
        self.programs.as_mut().map_or(Ok(false), ProgramRings::drain)
    }

    fn end(self: Box<Self>) -> Result<CollectorEnd, StoreError> {
        self.programs.map_or(Ok(CollectorEnd::default()), ProgramRings::finish)
    }
}
