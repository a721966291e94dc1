//! Processing prompts.

use dwell_events::engine::{BatchToken, EngineEvent, StopReason};

use crate::cells::Need;
use crate::context::Decoded;
use crate::sequence::Next;
use crate::session::{Outcome, PROMPT_STEP, Session};
use crate::{EngineError, JobObserver, fill};

/// Tokens of a sequence that wait to be computed.
struct Queue {
    sequence: i32,
    tokens: Vec<i32>,
    computed: usize,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.computed == self.tokens.len()
    }
}

/// A token of a batch after which a sequence can go on.
struct Output {
    batch_index: usize,
    sequence: i32,
}

/// The same need of each sequence.
fn needs(sequences: &[i32], tokens: usize) -> Vec<Need> {
    sequences.iter().map(|&sequence| Need { sequence, tokens }).collect()
}

impl Session<'_> {
    /// Adds a text to the end of these sequences, repeated to this many tokens if that is given, and processes it.
    pub(crate) fn prompt(
        &mut self,
        text: &str,
        fill_to_tokens: Option<u32>,
        sequences: &[i32],
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        let wrapped = match self.options.chat_template {
            true => self.tokenizer.wrap_in_chat_template(text)?,
            false => text.to_owned(),
        };
        // Sequences at their start get the model's first token and so have other tokens than the rest.
        let (starting, continuing): (Vec<i32>, Vec<i32>) =
            sequences.iter().partition(|&&sequence| self.cells.count(sequence) == 0);
        for (is_start, group) in [(true, starting), (false, continuing)] {
            if group.is_empty() {
                continue;
            }
            let tokens = match fill_to_tokens {
                Some(wanted) => {
                    // Before the tokens are made: there can be billions.
                    self.check_fits_empty_context(&needs(&group, wanted as usize))?;
                    fill::filled(&self.tokenizer, text, &wrapped, is_start, wanted as usize)?
                }
                None => self.tokenizer.tokenize(&wrapped, is_start)?,
            };
            observer.event(EngineEvent::Prompt { tokens: self.tokenizer.with_texts(&tokens) });
            if self.process(&tokens, &group, observer)? == Outcome::Interrupted {
                return Ok(Outcome::Interrupted);
            }
        }
        Ok(Outcome::Done)
    }

    fn process(
        &mut self,
        tokens: &[i32],
        sequences: &[i32],
        observer: &mut dyn JobObserver,
    ) -> Result<Outcome, EngineError> {
        let mut queues = self.queues(tokens, sequences)?;
        self.check_room(&queues, observer)?;
        while queues.iter().any(|queue| !queue.is_done()) {
            let is_whole = !observer.is_interrupted() && {
                let outputs = self.fill_batch(&mut queues);
                let decoded = self.compute(PROMPT_STEP, observer)?;
                self.totals.prompt_tokens += self.batch.tokens().len() as u64;
                self.keep_logits(&outputs);
                decoded == Decoded::Whole
            };
            if !is_whole {
                self.stop(sequences, StopReason::Interrupted, observer);
                return Ok(Outcome::Interrupted);
            }
        }
        Ok(Outcome::Done)
    }

    /// What each sequence has to compute: the token chosen for it last, if there is one, and the text's.
    fn queues(&mut self, tokens: &[i32], sequences: &[i32]) -> Result<Vec<Queue>, EngineError> {
        let first_token = self.tokenizer.first_token();
        let mut queues = Vec::with_capacity(sequences.len());
        for &sequence in sequences {
            let is_start = self.cells.count(sequence) == 0;
            let state = self.sequence(sequence);
            let tokens: Vec<i32> = state.pending().into_iter().chain(tokens.iter().copied()).collect();
            if tokens.is_empty() {
                return Err(EngineError::EmptyPrompt { sequence });
            }
            if is_start {
                state.has_first_token = first_token.is_some() && tokens.first().copied() == first_token;
            }
            state.next = Next::Unknown;
            queues.push(Queue { sequence, tokens, computed: 0 });
        }
        Ok(queues)
    }

    fn check_room(&mut self, queues: &[Queue], observer: &mut dyn JobObserver) -> Result<(), EngineError> {
        let needs: Vec<Need> =
            queues.iter().map(|queue| Need { sequence: queue.sequence, tokens: queue.tokens.len() }).collect();
        self.check_fits_empty_context(&needs)?;
        let Some(&crowded) = self.make_room(&needs, observer).first() else { return Ok(()) };
        Err(self.prompt_too_long(&needs, self.cells.used(crowded)))
    }

    /// Refuses what would not fit even if everything else were dropped, before anything is.
    fn check_fits_empty_context(&self, needs: &[Need]) -> Result<(), EngineError> {
        match self.needed_together(needs) > self.cells.capacity() {
            true => Err(self.prompt_too_long(needs, 0)),
            false => Ok(()),
        }
    }

    /// Cells that the tokens take of the same stream.
    fn needed_together(&self, needs: &[Need]) -> usize {
        let tokens = needs.iter().map(|need| need.tokens);
        if self.options.kv_unified { tokens.sum() } else { tokens.max().unwrap_or(0) }
    }

    fn prompt_too_long(&self, needs: &[Need], used: usize) -> EngineError {
        EngineError::PromptTooLong {
            sequences: needs.len(),
            needed: self.needed_together(needs) as u64,
            available: self.cells.capacity().saturating_sub(used) as u64,
            context_length: self.cells.capacity() as u64,
        }
    }

    /// Fills the batch with the same number of tokens of each sequence, one sequence after the other: so split
    /// caches compute the sequences side by side and unified ones get runs of neighbouring cells.
    fn fill_batch(&mut self, queues: &mut [Queue]) -> Vec<Output> {
        self.batch.clear();
        let mut outputs = Vec::new();
        let waiting = queues.iter().filter(|queue| !queue.is_done()).count();
        let share = self.context.batch_size() as usize / waiting;
        for queue in queues.iter_mut().filter(|queue| !queue.is_done()) {
            let sequence = queue.sequence;
            let positions = self.cells.next_position(sequence)..;
            let end = queue.tokens.len().min(queue.computed + share);
            for (index, position) in (queue.computed..end).zip(positions) {
                let is_last = index + 1 == queue.tokens.len();
                let token = BatchToken { id: queue.tokens[index], position, sequence };
                let batch_index = self.batch.push(token, is_last || self.options.all_positions);
                if is_last {
                    outputs.push(Output { batch_index, sequence });
                }
            }
            queue.computed = end;
        }
        outputs
    }

    /// Keeps what the sequences go on from: the next batch overwrites it.
    fn keep_logits(&mut self, outputs: &[Output]) {
        for output in outputs {
            if let Some(values) = self.context.logits(output.batch_index).map(<[f32]>::to_vec) {
                self.sequence(output.sequence).next = Next::Logits { values, step: PROMPT_STEP };
            }
        }
    }
}
