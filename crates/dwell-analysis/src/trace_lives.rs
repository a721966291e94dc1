//! The rows of a `trace` table as accesses of a [`LifeMap`].

use arrow_array::RecordBatch;
use dwell_events::OpType;

use crate::AnalysisError;
use crate::lives::{LifeMap, LifeSink, Visit};
use crate::reader::{Manner, TraceBatch};
use crate::region_type::RegionTypeNames;
use crate::step_windows::StepNumbers;

/// Follows the bytes of a trace for a sink. Regions are numbered by their `region_id`.
///
/// Rows have to come in the order of time, as collectors write them.
pub struct TraceLives<S> {
    lives: LifeMap,
    names: RegionTypeNames,
    steps: StepNumbers,
    sink: S,
}

impl<S: LifeSink> TraceLives<S> {
    /// Nothing has happened yet.
    pub fn new(sink: S) -> Self {
        Self { lives: LifeMap::default(), names: RegionTypeNames::new(), steps: StepNumbers::default(), sink }
    }

    /// Takes rows of `trace`; the columns are those of [`crate::Options::trace_columns`].
    pub fn push_trace(&mut self, batch: &RecordBatch) -> Result<(), AnalysisError> {
        let batch = TraceBatch::new(batch, &mut self.names)?;
        for row in 0..batch.rows() {
            let access = batch.access(row);
            if access.manner == Manner::Clear {
                continue;
            }
            let region = u32::try_from(access.region_id).unwrap_or(u32::MAX - 1);
            let step = self.steps.enter(access.address, access.step);
            let window = step.map_or(0, |step| step.number);
            let is_concluded = access.is_concluded_store();
            let visit = Visit { now_ns: access.timestamp_ns, region, window, is_concluded };
            let range = (access.address, access.end());
            match access.op_type {
                OpType::Load => self.lives.load(range, visit, &mut self.sink),
                OpType::Store => self.lives.store(range, visit, &mut self.sink),
            }
        }
        Ok(())
    }

    /// The sink, after it was told about the lives that are still open.
    pub fn finish(mut self) -> S {
        self.lives.close(&mut self.sink);
        self.sink
    }
}
