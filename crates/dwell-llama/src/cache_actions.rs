//! Removing, copying and shifting what is in the cache.

use dwell_events::engine::EngineEvent;

use crate::sequence::Next;
use crate::session::{Outcome, Session};
use crate::{EngineError, JobObserver};

impl Session<'_> {
    /// Removes positions `[from, to)` of a sequence; `to` < 0 means to the end.
    pub(crate) fn remove(
        &mut self,
        sequence: i32,
        from: i32,
        to: i32,
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        if !self.context.remove(sequence, from, to) {
            return Err(EngineError::RemoveRefused { sequence, from, to });
        }
        let end = self.cells.next_position(sequence);
        let first = self.cells.position(sequence, 0);
        self.cells.remove(sequence, from, to);
        let lost_end = self.cells.next_position(sequence) != end;
        let lost_first = self.cells.position(sequence, 0) != first;
        let state = self.sequence(sequence);
        if lost_end {
            // What would come next belongs after tokens that are gone.
            state.next = Next::Unknown;
            state.text.finish();
        }
        state.has_first_token &= !lost_first;
        observer.event(EngineEvent::KvRemoved { sequence, from, to });
        Ok(Outcome::Done)
    }

    /// Lets a sequence share or copy the cells of another, in place of what it had.
    pub(crate) fn copy(
        &mut self,
        source: i32,
        target: i32,
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        if self.cells.count(target) > 0 {
            // In a unified cache llama.cpp would leave both contents in the sequence.
            self.remove(target, 0, -1, observer)?;
        }
        self.context.copy(source, target);
        self.cells.copy(source, target);
        let (next, has_first_token) = {
            let state = self.sequence(source);
            (state.next.clone(), state.has_first_token)
        };
        let state = self.sequence(target);
        (state.next, state.has_first_token) = (next, has_first_token);
        observer.event(EngineEvent::KvCopied { source, target });
        Ok(Outcome::Done)
    }

    /// Moves positions `[from, to)` of a sequence; the keys are rotated with the next batch.
    pub(crate) fn shift(
        &mut self,
        sequence: i32,
        from: i32,
        to: i32,
        delta: i32,
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        if !self.context.can_shift() {
            return Err(EngineError::ShiftUnsupported { sequence });
        }
        if self.cells.is_sharing(sequence) {
            return Err(EngineError::ShiftOfSharedCells { sequence });
        }
        self.cells.shift(sequence, from, to, delta).map_err(|target| EngineError::ShiftTarget {
            sequence,
            delta,
            position: target.position,
            problem: target.problem,
        })?;
        self.context.shift(sequence, from, to, delta);
        observer.event(EngineEvent::KvShifted { sequence, from, to, delta });
        Ok(Outcome::Done)
    }
}
