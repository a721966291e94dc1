//! When what was computed: phases, requests, steps, tokens, from what the engine tells of itself.
//!
//! It knows nothing of accesses and can be used by any source of them. The source hands it the engine's events in the
//! order of their times and asks, for an access made now, in which phase and step that is ([`Timeline::now`]). A source
//! that sees computations and their inputs says which tokens they compute ([`Timeline::computes`]) and is told the same,
//! more exactly: an engine cuts a batch into several computations, and some engines report no batches at all.

mod pending_tokens;
mod token_log;
mod unreported_steps;

use std::collections::BTreeMap;

use dwell_events::engine::{BatchToken, EngineEvent};
use dwell_events::server::RequestTimings;
use dwell_events::{LossKind, Phase, PhaseSpan, RequestSpan};

use crate::loss_count::LossCount;
use crate::output::{Outcome, Output, ServerFigure};
use pending_tokens::PendingTokens;
use token_log::{GeneratedToken, TokenLog};
use unreported_steps::UnreportedSteps;

/// The process that the engine's events are about.
const DRIVEN: u8 = 0;

/// Where in a run an access belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The phase; none before the first was reported.
    pub phase: Option<Phase>,
    /// 0 for a prompt, n for the n-th decoded token; none outside of a computation.
    pub step: Option<u32>,
    /// The token that the computation gives, counted over the run; none in a prompt and where several are computed at once.
    pub token_index: Option<u32>,
    /// Tokens in the context, as far as the tokens being computed tell.
    pub context_tokens: Option<u32>,
}

/// Where a token belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Position in the sequence, if known.
    pub position: Option<i32>,
    /// Sequence, if known.
    pub sequence: Option<i32>,
}

/// The tokens of a computation, as far as its inputs show them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ComputedTokens<'a> {
    /// How many.
    pub count: usize,
    /// Their ids.
    pub ids: Option<&'a [i64]>,
    /// Their positions.
    pub positions: Option<&'a [i64]>,
    /// Whether nothing of their sequences was computed before.
    pub begins_sequence: bool,
}

/// A computation that a source has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// What holds for each of its accesses.
    pub moment: Moment,
    /// Number of its step.
    pub step: u32,
    /// Where each of its tokens belongs.
    pub places: Vec<Place>,
}

/// What a timeline has found out when the run is over.
pub struct TimelineEnd {
    /// Phases, in their order.
    pub phases: Vec<PhaseSpan>,
    /// How the engine ended.
    pub outcome: Outcome,
    /// Tokens that decode steps gave.
    pub decoded_tokens: u64,
}

/// Follows the events of an engine.
#[derive(Default)]
pub struct Timeline {
    phases: Vec<PhaseSpan>,
    outcome: Outcome,
    tokens: TokenLog,
    pending: PendingTokens,
    /// Step of the batch that was begun last; none if the engine reports no batches.
    batch_step: Option<u32>,
    /// What holds while that batch is computed.
    batch_moment: Option<Moment>,
    /// By process.
    unreported: BTreeMap<u8, UnreportedSteps>,
    kv_bytes: Option<u64>,
    first_time_ns: Option<u64>,
    last_time_ns: u64,
}

impl Timeline {
    /// Something happened at this time. To be told of every record of a source, since the last one ends the last phase.
    pub fn time_passes(&mut self, time_ns: u64) {
        self.first_time_ns.get_or_insert(time_ns);
        self.last_time_ns = self.last_time_ns.max(time_ns);
    }

    /// A source has seen what will be computed. An engine that reports no phases has loaded until then, and generates from
    /// then on.
    pub fn computations_begin(&mut self, time_ns: u64) {
        if self.phases.is_empty() {
            self.phase_begins(Phase::WeightLoad, self.first_time_ns.unwrap_or(time_ns));
            self.phase_begins(Phase::Generation, time_ns);
        }
    }

    /// The KV cache holds this many bytes from now on, as the source of accesses knows. Tokens are listed with it.
    pub fn set_kv_bytes(&mut self, live_bytes: u64) {
        self.kv_bytes = Some(live_bytes);
    }

    /// The engine reported something. Rows of tokens and a server's figures go to `out`.
    pub fn event(&mut self, event: EngineEvent, time_ns: u64, loss: &mut LossCount, out: &mut Output) {
        self.time_passes(time_ns);
        match event {
            EngineEvent::PhaseBegins { phase } => self.phase_begins(phase, time_ns),
            EngineEvent::Loaded { model } => self.outcome.model = Some(model),
            EngineEvent::Prompt { tokens } => self.tokens.prompt(tokens),
            EngineEvent::BatchBegins { step, tokens, .. } => self.batch_begins(step, tokens, time_ns, out),
            EngineEvent::BatchEnds { .. } => {
                self.batch_moment = None;
                self.tokens.batch_ends(time_ns, self.kv_bytes, &mut out.tokens);
            }
            EngineEvent::Token { step, sequence, position, id, text } => {
                self.note_first_token(sequence, time_ns);
                let (step, kv_bytes) = self.step_of_token(step);
                let token = GeneratedToken { step, sequence, position, id, text };
                self.tokens.generated(token, time_ns, kv_bytes, &mut out.tokens);
            }
            EngineEvent::KvRemoved { sequence, from, to } => self.tokens.removed(sequence, from, to),
            EngineEvent::KvShifted { sequence, from, to, delta } => self.tokens.shifted(sequence, from, to, delta),
            EngineEvent::Stopped { sequence, reason } => self.outcome.stops.push((sequence, reason)),
            EngineEvent::Finished { prompt_tokens, prompt_ns, generated_tokens, decode_ns } => {
                self.outcome.finished = Some((prompt_tokens, prompt_ns, generated_tokens, decode_ns));
            }
            EngineEvent::ProgramEnded { exit_code, exit_signal } => {
                let server = self.outcome.server.get_or_insert_default();
                (server.exit_code, server.exit_signal) = (exit_code, exit_signal);
            }
            EngineEvent::PeakMemory { rss_bytes } => self.outcome.peak_rss_bytes = Some(rss_bytes),
            EngineEvent::Failed { message, hints } => self.outcome.failed = Some((message, hints)),
            EngineEvent::Serving { server } => self.outcome.server = Some(*server),
            EngineEvent::MemoryReported { buffers } => self.outcome.buffers = buffers,
            EngineEvent::RequestBegins { sequence, .. } => self.request_begins(sequence, time_ns),
            EngineEvent::RequestEnds { sequence, timings, .. } => {
                self.request_ends(sequence, timings, time_ns, loss);
            }
            EngineEvent::ServerMetrics { values } => {
                let figure = |(name, value)| ServerFigure { timestamp_ns: time_ns, name, value };
                out.server_figures.extend(values.into_iter().map(figure));
            }
            EngineEvent::KvCopied { .. } | EngineEvent::LoadProgress { .. } | EngineEvent::ProcessFound { .. } => {}
        }
    }

    /// Where an access belongs that is made between the last event and the next, by whatever the engine computes then.
    pub fn now(&self) -> Moment {
        Moment { phase: self.phase(), ..self.batch_moment.unwrap_or_default() }
    }

    /// The phase that the run is in.
    pub fn phase(&self) -> Option<Phase> {
        self.phases.last().map(|span| span.phase)
    }

    /// When a phase was, as far as it has come.
    pub fn span_of(&self, phase: Phase) -> Option<PhaseSpan> {
        self.phases.iter().find(|span| span.phase == phase).copied()
    }

    /// Time of the latest record.
    pub fn last_time_ns(&self) -> u64 {
        self.last_time_ns
    }

    /// A computation was seen in a process. It is matched with the batch that the engine reported, or numbered if the engine
    /// reports none.
    ///
    /// [`Timeline::computed`] is to be called when its effects on the KV cache are known.
    pub fn computes(&mut self, process: u8, tokens: &ComputedTokens<'_>) -> Computation {
        let places = self.pending.take(tokens.ids, tokens.positions, tokens.count);
        let context_tokens = context_tokens(places.iter().filter_map(|place| place.position));
        let token_index = match &places[..] {
            [only] => only.sequence.zip(only.position).and_then(|(sequence, at)| self.tokens.next_after(sequence, at)),
            _ => None,
        };
        let step = self.batch_step.unwrap_or_else(|| {
            let positions: Vec<_> = places.iter().map(|place| place.position).collect();
            self.unreported.entry(process).or_default().number(&positions, tokens.begins_sequence)
        });
        let moment = Moment {
            // A program that reports no phases computes, and nothing else is known of it.
            phase: Some(self.phase().unwrap_or(Phase::Generation)),
            step: Some(step),
            token_index: token_index.filter(|_| step > 0),
            context_tokens,
        };
        Computation { moment, step, places }
    }

    /// A computation is done, and the cache holds so many bytes now.
    pub fn computed(&mut self, process: u8, step: u32, live_kv_bytes: u64) {
        self.set_kv_bytes(live_kv_bytes);
        self.unreported.entry(process).or_default().computed(step, live_kv_bytes);
    }

    /// Ends the last phase and hands out the tokens that are left.
    pub fn finish(mut self, out: &mut Output) -> TimelineEnd {
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = self.last_time_ns;
        }
        let decoded_tokens = self.tokens.finish(&mut out.tokens);
        TimelineEnd { phases: self.phases, outcome: self.outcome, decoded_tokens }
    }

    fn phase_begins(&mut self, phase: Phase, time_ns: u64) {
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = time_ns;
        }
        self.phases.push(PhaseSpan { phase, begin_ns: time_ns, end_ns: time_ns });
    }

    fn batch_begins(&mut self, step: u32, tokens: Vec<BatchToken>, time_ns: u64, out: &mut Output) {
        self.batch_step = Some(step);
        self.tokens.batch_begins(step, &tokens, time_ns, &mut out.tokens);
        let token_index = match &tokens[..] {
            [only] if step > 0 => self.tokens.next_after(only.sequence, only.position),
            _ => None,
        };
        let context_tokens = context_tokens(tokens.iter().map(|token| token.position));
        self.batch_moment = Some(Moment { phase: None, step: Some(step), token_index, context_tokens });
        self.pending.begin(tokens);
    }

    fn request_begins(&mut self, sequence: i32, time_ns: u64) {
        self.unreported.entry(DRIVEN).or_default().request_begins();
        let timings = RequestTimings::default();
        let span = RequestSpan { sequence, begin_ns: time_ns, first_token_ns: None, end_ns: None, timings };
        self.outcome.requests.push(span);
    }

    fn request_ends(&mut self, sequence: i32, timings: RequestTimings, time_ns: u64, loss: &mut LossCount) {
        self.unreported.entry(DRIVEN).or_default().request_ends();
        let Some(request) = self.open_request(sequence) else { return };
        (request.end_ns, request.timings) = (Some(time_ns), timings);
        // An answer of one token may be the end alone, which no server sends.
        let is_missing = request.first_token_ns.is_none() && timings.generated_tokens.is_none_or(|tokens| tokens > 1);
        if is_missing {
            loss.add(LossKind::MissingAnswers, 1, None, || format!("first to sequence {sequence}"));
        }
    }

    fn note_first_token(&mut self, sequence: i32, time_ns: u64) {
        if let Some(request) = self.open_request(sequence) {
            request.first_token_ns.get_or_insert(time_ns);
        }
    }

    /// The request of a sequence that is being answered.
    fn open_request(&mut self, sequence: i32) -> Option<&mut RequestSpan> {
        let is_it = |request: &&mut RequestSpan| request.sequence == sequence && request.end_ns.is_none();
        self.outcome.requests.iter_mut().rev().find(is_it)
    }

    /// The step that gave a token, as the trace numbers it, and the bytes in the KV cache after it.
    fn step_of_token(&self, told: u32) -> (u32, Option<u64>) {
        if self.batch_step.is_some() || self.kv_bytes.is_none() {
            return (told, self.kv_bytes);
        }
        let Some(unreported) = self.unreported.get(&DRIVEN) else { return (told, self.kv_bytes) };
        (unreported.step_in_run(told), unreported.kv_bytes_after(told).or(self.kv_bytes))
    }
}

/// Tokens in the context of tokens at these positions.
fn context_tokens(positions: impl Iterator<Item = i32>) -> Option<u32> {
    positions.max().and_then(|last| u32::try_from(last).ok()).map(|last| last.saturating_add(1))
}
