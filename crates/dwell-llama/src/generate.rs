//! Generating tokens.

use std::time::Instant;

use dwell_events::engine::{BatchToken, EngineEvent, StopReason};

use crate::cells::Need;
use crate::context::Decoded;
use crate::sequence::Next;
use crate::session::{Outcome, Session};
use crate::{EngineError, JobObserver};

/// A sequence that goes on.
struct Active {
    sequence: i32,
    generated: u32,
}

impl Session<'_> {
    /// Decodes tokens, one per step and sequence, until all sequences have ended or have this many.
    pub(crate) fn generate(
        &mut self,
        max_tokens: u32,
        sequences: &[i32],
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        let mut active = Vec::with_capacity(sequences.len());
        for &sequence in sequences {
            let mut started = Active { sequence, generated: 0 };
            if max_tokens == 0 {
                self.stop(&[sequence], StopReason::MaxTokens, observer);
            } else if self.start(&mut started, max_tokens, observer)? {
                active.push(started);
            }
        }
        while !active.is_empty() {
            if self.decode_step(max_tokens, &mut active, observer)? == Outcome::Interrupted {
                return Ok(Outcome::Interrupted);
            }
        }
        Ok(Outcome::Done)
    }

    /// Chooses the first token if the prompt's logits are there; false if it was the last.
    fn start(
        &mut self,
        active: &mut Active,
        max_tokens: u32,
        observer: &mut dyn JobObserver,
    ) -> Result<bool, EngineError> {
        match std::mem::replace(&mut self.sequence(active.sequence).next, Next::Unknown) {
            Next::Unknown => Err(EngineError::NothingToContinue { sequence: active.sequence }),
            Next::Logits { values, step } => {
                let started = Instant::now();
                let chosen = self.sequence(active.sequence).sampler.sample(&values);
                self.totals.add_time(step, started);
                self.accept(chosen, step, active, max_tokens, observer)
            }
            pending @ Next::Token(_) => {
                self.sequence(active.sequence).next = pending;
                Ok(true)
            }
        }
    }

    /// Computes the chosen token of every active sequence and chooses the next ones.
    fn decode_step(
        &mut self,
        max_tokens: u32,
        active: &mut Vec<Active>,
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        if observer.is_interrupted() {
            return Ok(self.interrupt(active, observer));
        }
        self.stop_crowded(active, observer);
        if active.is_empty() {
            return Ok(Outcome::Done);
        }
        self.fill_step(active)?;
        self.decode_steps += 1;
        let step = self.decode_steps;
        if self.compute(step, observer)? == Decoded::Aborted {
            return Ok(self.interrupt(active, observer));
        }
        let mut going_on = Vec::with_capacity(active.len());
        for (batch_index, mut one) in active.drain(..).enumerate() {
            let chosen = self.choose_after(batch_index, step, one.sequence);
            if self.accept(chosen, step, &mut one, max_tokens, observer)? {
                going_on.push(one);
            }
        }
        *active = going_on;
        Ok(Outcome::Done)
    }

    fn interrupt(&self, active: &[Active], observer: &mut dyn JobObserver) -> Outcome {
        let sequences: Vec<i32> = active.iter().map(|one| one.sequence).collect();
        self.stop(&sequences, StopReason::Interrupted, observer);
        Outcome::Interrupted
    }

    /// Makes room for a token of each sequence, and ends those that have none.
    fn stop_crowded(&mut self, active: &mut Vec<Active>, observer: &mut dyn JobObserver) {
        loop {
            let needs: Vec<Need> = active.iter().map(|one| Need { sequence: one.sequence, tokens: 1 }).collect();
            let crowded = self.make_room(&needs, observer);
            if crowded.is_empty() {
                return;
            }
            self.stop(&crowded, StopReason::ContextFull, observer);
            active.retain(|one| !crowded.contains(&one.sequence));
        }
    }

    fn fill_step(&mut self, active: &[Active]) -> Result<(), EngineError> {
        self.batch.clear();
        for &Active { sequence, .. } in active {
            let id = self.sequence(sequence).pending().ok_or(EngineError::NothingToContinue { sequence })?;
            let position = self.cells.next_position(sequence);
            self.batch.push(BatchToken { id, position, sequence }, true);
        }
        Ok(())
    }

    /// Chooses a token from the logits of an entry of the last batch.
    fn choose_after(&mut self, batch_index: usize, step: u32, sequence: i32) -> Result<i32, &'static str> {
        let started = Instant::now();
        let logits = self.context.logits(batch_index).ok_or("nothing")?;
        let chosen = self.sequences[sequence as usize].sampler.sample(logits);
        self.totals.add_time(step, started);
        chosen
    }

    /// Tells the chosen token; false if it was the last of its sequence.
    fn accept(
        &mut self,
        chosen: Result<i32, &'static str>,
        step: u32,
        active: &mut Active,
        max_tokens: u32,
        observer: &mut dyn JobObserver,
    ) -> Result<bool, EngineError> {
        let sequence = active.sequence;
        let id = chosen.map_err(|found| EngineError::UnusableLogits { sequence, step, found })?;
        let piece = self.tokenizer.piece(id);
        let text = self.sequence(sequence).text.push(&piece);
        let position = self.cells.next_position(sequence);
        observer.event(EngineEvent::Token { step, sequence, position: Some(position), id: Some(id), text });
        self.sequence(sequence).next = Next::Token(id);
        self.totals.generated_tokens += 1;
        active.generated += 1;
        let reason = match () {
            () if self.tokenizer.is_end(id) && !self.options.ignore_end => StopReason::EndOfGeneration,
            () if active.generated == max_tokens => StopReason::MaxTokens,
            () => return Ok(true),
        };
        self.stop(&[sequence], reason, observer);
        Ok(false)
    }
}
