//! A context with its sequences, and what all actions on it have in common.

use std::time::Instant;

use dwell_events::Phase;
use dwell_events::engine::{Action, EngineEvent, EngineOptions, LoadedModel, StopReason};
use dwell_events::server::{BufferKind, ReportedBuffer};

use crate::batch::Batch;
use crate::cells::{Cells, Need};
use crate::context::{Context, Decoded};
use crate::model::Model;
use crate::sequence::Sequence;
use crate::tokenizer::Tokenizer;
use crate::{EngineError, Hooks, JobObserver, job};

/// Step number of prompts.
pub(crate) const PROMPT_STEP: u32 = 0;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Interrupted,
}

/// What the job did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) prompt_tokens: u64,
    pub(crate) prompt_ns: u64,
    pub(crate) generated_tokens: u64,
    pub(crate) decode_ns: u64,
}

impl Totals {
    /// Counts the time since a moment for the kind of step.
    pub(crate) fn add_time(&mut self, step: u32, since: Instant) {
        let elapsed_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match step {
            PROMPT_STEP => self.prompt_ns += elapsed_ns,
            _ => self.decode_ns += elapsed_ns,
        }
    }
}

/// A context with its sequences.
pub(crate) struct Session<'model> {
    pub(crate) model: &'model Model,
    pub(crate) options: &'model EngineOptions,
    pub(crate) tokenizer: Tokenizer<'model>,
    pub(crate) context: Context<'model>,
    pub(crate) batch: Batch,
    pub(crate) cells: Cells,
    pub(crate) sequences: Vec<Sequence>,
    /// Decode steps so far, over all actions.
    pub(crate) decode_steps: u32,
    pub(crate) totals: Totals,
}

impl<'model> Session<'model> {
    pub(crate) fn new(
        model: &'model Model,
        options: &'model EngineOptions,
        hooks: Hooks<'model>,
    ) -> Result<Session<'model>, EngineError> {
        let context = Context::new(model, options, hooks)?;
        Ok(Session {
            model,
            options,
            tokenizer: Tokenizer::new(model),
            batch: Batch::new(context.batch_size()),
            cells: Cells::new(options.parallel, options.kv_unified, context.context_per_sequence()),
            context,
            sequences: (0..options.parallel).map(|index| Sequence::new(index, options)).collect(),
            decode_steps: 0,
            totals: Totals::default(),
        })
    }

    /// Facts about the model and the context.
    pub(crate) fn loaded_model(&self) -> LoadedModel {
        LoadedModel {
            description: self.model.description(),
            parameters: self.model.parameters(),
            size_bytes: self.model.size_bytes(),
            layers: self.model.layers(),
            vocabulary: self.model.vocabulary_size(),
            context_length: self.context.context_length(),
            context_per_sequence: self.context.context_per_sequence(),
            sliding_window: self.model.sliding_window(),
            runtime: job::runtime(),
            system_info: job::system_info(),
            threads: self.context.threads(),
        }
    }

    /// What llama.cpp says it allocated. It rounds to hundredths of a MiB; sizes of caches and states are known exactly from
    /// the model's shape, so they are left out.
    fn buffers(&self) -> Vec<ReportedBuffer> {
        let is_told = |buffer: &&ReportedBuffer| {
            matches!(buffer.kind, BufferKind::Weights | BufferKind::Compute | BufferKind::Other)
        };
        self.model.buffers().iter().chain(self.context.buffers()).filter(is_told).cloned().collect()
    }

    /// Tells what was loaded and does the actions, until one of them is interrupted.
    pub(crate) fn run(&mut self, actions: &[Action], observer: &mut dyn JobObserver) -> Result<(), EngineError> {
        observer.event(EngineEvent::Loaded { model: self.loaded_model() });
        observer.event(EngineEvent::MemoryReported { buffers: self.buffers() });
        observer.event(EngineEvent::PhaseBegins { phase: Phase::Generation });
        for action in actions {
            if self.act(action, observer)? == Outcome::Interrupted {
                break;
            }
        }
        Ok(())
    }

    fn act(&mut self, action: &Action, observer: &mut dyn JobObserver) -> Result<Outcome, EngineError> {
        match action {
            Action::Prompt { text, sequences, fill_to_tokens } => {
                self.prompt(text, *fill_to_tokens, sequences, observer)
            }
            Action::Generate { max_tokens, sequences } => self.generate(*max_tokens, sequences, observer),
            &Action::Remove { sequence, from, to } => self.remove(sequence, from, to, observer),
            &Action::Copy { source, target } => self.copy(source, target, observer),
            &Action::Shift { sequence, from, to, delta } => self.shift(sequence, from, to, delta, observer),
        }
    }

    pub(crate) fn sequence(&mut self, sequence: i32) -> &mut Sequence {
        &mut self.sequences[sequence as usize]
    }

    /// Computes the batch as a part of this step and counts its cells.
    pub(crate) fn compute(&mut self, step: u32, observer: &mut dyn JobObserver) -> Result<Decoded, EngineError> {
        let (tokens, outputs) = (self.batch.tokens().to_vec(), self.batch.outputs());
        observer.event(EngineEvent::BatchBegins { step, tokens, outputs });
        let started = Instant::now();
        let decoded = self.context.decode(&self.batch)?;
        self.totals.add_time(step, started);
        if decoded == Decoded::Whole {
            self.batch.tokens().iter().for_each(|token| self.cells.append(token.sequence));
        }
        observer.event(EngineEvent::BatchEnds { step });
        Ok(decoded)
    }

    /// Makes room for these tokens if that is allowed; the sequences that have none are returned.
    pub(crate) fn make_room(&mut self, needs: &[Need], observer: &mut dyn JobObserver) -> Vec<i32> {
        loop {
            let crowded = self.cells.crowded(needs);
            let was_shifted = crowded.iter().any(|&sequence| self.shift_context(sequence, observer));
            if !was_shifted {
                return crowded;
            }
        }
    }

    /// Drops the older half of a sequence and moves the rest to its place; false if that cannot be done.
    fn shift_context(&mut self, sequence: i32, observer: &mut dyn JobObserver) -> bool {
        if !self.options.context_shift || !self.context.can_shift() || self.cells.is_sharing(sequence) {
            return false;
        }
        let kept = usize::from(self.sequence(sequence).has_first_token);
        let dropped = self.cells.count(sequence).saturating_sub(kept) / 2;
        let first_dropped = self.cells.position(sequence, kept);
        let first_moved = self.cells.position(sequence, kept + dropped);
        let (Some(from), Some(to)) = (first_dropped, first_moved) else { return false };
        if dropped == 0 || !self.context.remove(sequence, from, to) {
            return false;
        }
        self.cells.remove(sequence, from, to);
        observer.event(EngineEvent::KvRemoved { sequence, from, to });
        let delta = from - to;
        self.context.shift(sequence, to, -1, delta);
        if self.cells.shift(sequence, to, -1, delta).is_err() {
            return false; // Not reached: everything in the way of the moved cells was just removed.
        }
        observer.event(EngineEvent::KvShifted { sequence, from: to, to: -1, delta });
        true
    }

    /// Tells that these sequences have ended.
    pub(crate) fn stop(&self, sequences: &[i32], reason: StopReason, observer: &mut dyn JobObserver) {
        for &sequence in sequences {
            observer.event(EngineEvent::Stopped { sequence, reason });
        }
    }
}
