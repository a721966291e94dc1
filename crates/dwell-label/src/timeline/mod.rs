//! When what was computed: phases, requests, steps, tokens, from what the engine tells of itself.
//!
//! It knows nothing of accesses and can be used by any source of them. The source hands it the engine's events in the
//! order of their times and asks, for an access made now, in which phase and step that is ([`Timeline::now`]). A source
//! that sees computations and their inputs says which tokens they compute ([`Timeline::computes`]) and is told the same,
//! more exactly: an engine cuts a batch into several computations, and some engines report no batches at all.

mod answers;
mod lanes;
mod pending_tokens;
mod token_log;
mod unreported_steps;

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::engine::{BatchToken, EngineEvent, WorkTotals};
use dwell_events::server::RequestTimings;
use dwell_events::{Basis, LossKind, Phase, PhaseSpan, RequestSpan};

use crate::loss_count::LossCount;
use crate::output::{Outcome, Output, ServerFigure};
pub use lanes::Dropped;

use answers::{Wanted, claim};
use lanes::Circumstances;
use pending_tokens::PendingTokens;
use token_log::{GeneratedToken, TokenLog};
use unreported_steps::UnreportedSteps;

/// Most tokens that a runtime computes to try itself when it has loaded a model: llama.cpp's warm-up takes a beginning
/// and an end.
const TRIAL_TOKENS_MAX: usize = 2;

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
    /// Number of the sequence in its process, where a program does not say which it is and it was found out.
    pub lane: Option<u32>,
}

/// The tokens of a computation, as far as its inputs show them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// How many there are.
    pub tokens: usize,
    /// Ids in the vocabulary.
    pub ids: Option<&'a [i64]>,
    /// Positions in their sequences.
    pub positions: Option<&'a [i64]>,
    /// The KV cache that they are stored in, by any number.
    pub cache: Option<usize>,
    /// The stream of that cache, for each, where every sequence has one of its own.
    pub streams: Option<&'a [u32]>,
    /// Numbers of those after which a token can be chosen.
    pub outputs: Option<&'a [i64]>,
    /// When the computation began.
    pub begin_ns: u64,
    /// Whether nothing of their sequences was computed before.
    pub begins_sequence: bool,
}

/// A computation that a source has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// What holds for each of its accesses.
    pub moment: Moment,
    /// Number of its step; none if it is not counted.
    pub step: Option<u32>,
    /// Where each of its tokens belongs.
    pub places: Vec<Place>,
    /// Cells that the program gave up before it.
    pub dropped: Vec<Dropped>,
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
    /// Requests that are being answered, by their number in the outcome.
    open_requests: BTreeSet<usize>,
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
                let request = self.note_first_token(sequence, time_ns);
                // Where computations are seen and batches are not told, what gave it follows from those.
                let answer = request.filter(|_| self.batch_step.is_none() && self.kv_bytes.is_some());
                let token = GeneratedToken { step, sequence, position, id, text };
                self.tokens.generated(token, time_ns, self.kv_bytes, answer, &mut out.tokens);
            }
            EngineEvent::KvRemoved { sequence, from, to } => self.tokens.removed(sequence, from, to),
            EngineEvent::KvShifted { sequence, from, to, delta } => self.tokens.shifted(sequence, from, to, delta),
            EngineEvent::Stopped { sequence, reason } => self.outcome.stops.push((sequence, reason)),
            EngineEvent::Finished { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns } => {
                let totals = WorkTotals { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns };
                self.outcome.finished = Some(totals);
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
                self.request_ends(sequence, timings, time_ns, loss, out);
            }
            EngineEvent::ServerMetrics { values } => {
                let figure = |(name, value)| ServerFigure { timestamp_ns: time_ns, name, value };
                out.server_figures.extend(values.into_iter().map(figure));
            }
            EngineEvent::KvCopied { .. }
            | EngineEvent::LoadProgress { .. }
            | EngineEvent::PageSampled { .. }
            | EngineEvent::ProcessFound { .. }
            | EngineEvent::PromptTokens { .. } => {}
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

    /// A computation was seen in a process. It is matched with the batch that the engine reported, or numbered if the
    /// engine reports none.
    ///
    /// [`Timeline::computed`] is to be called when its effects on the KV cache are known.
    pub fn computes(&mut self, process: u8, inputs: &Inputs<'_>) -> Computation {
        let mut places = self.pending.take(inputs.ids, inputs.positions, inputs.tokens);
        let context_tokens = context_tokens(places.iter().filter_map(|place| place.position));
        let token_index = match &places[..] {
            [only] => only.sequence.zip(only.position).and_then(|(sequence, at)| self.tokens.next_after(sequence, at)),
            _ => None,
        };
        let (step, dropped) = match self.batch_step {
            Some(step) => (Some(step), Vec::new()),
            None => self.number(process, inputs, &mut places),
        };
        let moment = Moment {
            // A program that reports no phases computes, and nothing else is known of it.
            phase: Some(self.phase().unwrap_or(Phase::Generation)),
            step,
            token_index: token_index.filter(|_| step > Some(0)),
            context_tokens,
        };
        Computation { moment, step, places, dropped }
    }

    /// The number of a computation that the engine does not tell of; none if dwell has caused it for its own purposes.
    fn number(&mut self, process: u8, inputs: &Inputs<'_>, places: &mut [Place]) -> (Option<u32>, Vec<Dropped>) {
        let is_new = self.unreported.entry(process).or_default().is_new();
        let is_trial = !places.is_empty() && self.phase() == Some(Phase::WeightLoad) && self.is_trial(is_new, places);
        if !places.is_empty() && self.phase() == Some(Phase::WeightLoad) && !is_trial {
            // What a request asks for is computed, so the model is loaded, whether that was seen or not.
            self.phase_begins(Phase::Generation, inputs.begin_ns);
        }
        let slots = self.outcome.server.as_ref().and_then(|server| server.slots);
        let now = Circumstances {
            is_trial,
            open_requests: self.open_requests.len(),
            slots: slots.map_or(usize::MAX, |slots| slots.max(1) as usize),
        };
        let is_counted = self.phase() != Some(Phase::Setup);
        let numbered = self.unreported.entry(process).or_default().number(inputs, places, now, is_counted);
        (is_counted.then_some(numbered.step), numbered.dropped)
    }

    /// Whether a computation while the model is loaded is one with which the runtime tries itself. A program that is
    /// started with its request computes that as soon as it can; its trial comes before.
    fn is_trial(&self, is_new: bool, places: &[Place]) -> bool {
        let is_first = is_new && places.len() <= TRIAL_TOKENS_MAX && places[0].position.is_none_or(|first| first == 0);
        self.open_requests.is_empty() || is_first
    }

    /// A computation is done, and the cache holds so many bytes now.
    pub fn computed(&mut self, process: u8, step: Option<u32>, live_kv_bytes: u64) {
        self.set_kv_bytes(live_kv_bytes);
        self.unreported.entry(process).or_default().computed(step.unwrap_or(0), live_kv_bytes);
    }

    /// Ends the last phase and hands out the tokens that are left.
    pub fn finish(mut self, out: &mut Output) -> TimelineEnd {
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = self.last_time_ns;
        }
        for request in std::mem::take(&mut self.open_requests) {
            self.settle(request, out);
        }
        let decoded_tokens = self.tokens.finish(&mut out.tokens);
        TimelineEnd { phases: self.phases, outcome: self.outcome, decoded_tokens }
    }

    fn phase_begins(&mut self, phase: Phase, time_ns: u64) {
        // An engine may tell late what was seen of its computations.
        if self.phase() == Some(phase) {
            return;
        }
        if let Some(span) = self.phases.last_mut() {
            span.end_ns = time_ns;
        }
        self.phases.push(PhaseSpan { phase, begin_ns: time_ns, end_ns: time_ns });
        if phase == Phase::Generation {
            // A program that was started with its request could not begin with it before.
            for &request in &self.open_requests {
                self.outcome.requests[request].begin_ns = time_ns;
            }
        }
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
        self.open_requests.insert(self.outcome.requests.len());
        let span = RequestSpan { sequence, begin_ns: time_ns, ..RequestSpan::default() };
        self.outcome.requests.push(span);
    }

    fn request_ends(
        &mut self,
        sequence: i32,
        timings: RequestTimings,
        time_ns: u64,
        loss: &mut LossCount,
        out: &mut Output,
    ) {
        let Some(index) = self.open_request(sequence) else { return };
        self.open_requests.remove(&index);
        let request = &mut self.outcome.requests[index];
        (request.end_ns, request.timings) = (Some(time_ns), timings);
        // An answer of one token may be the end alone, which no server sends.
        let is_missing = request.first_token_ns.is_none() && timings.generated_tokens.is_none_or(|tokens| tokens > 1);
        if is_missing {
            loss.add(LossKind::MissingAnswers, 1, None, || format!("first to sequence {sequence}"));
        }
        self.settle(index, out);
        if self.open_requests.is_empty() {
            self.unreported.values_mut().for_each(UnreportedSteps::all_answered);
        }
    }

    /// Finds out what was computed for a request, and hands out its tokens.
    fn settle(&mut self, index: usize, out: &mut Output) {
        let arrived_ns = self.tokens.arrivals(index);
        let request = &mut self.outcome.requests[index];
        let wanted = Wanted {
            begin_ns: request.begin_ns,
            sequence: request.sequence,
            prompt_tokens: request.timings.prompt_tokens,
            arrived_ns: &arrived_ns,
        };
        let is_traced = self.batch_step.is_none() && self.kv_bytes.is_some();
        let lanes = self.unreported.values_mut().filter(|_| is_traced).flat_map(UnreportedSteps::lanes_mut);
        let found = claim(lanes, &wanted);
        let traced = found.as_ref().and_then(|found| found.reused_tokens).map(|tokens| (tokens, Basis::Exact));
        let told = request.timings.cached_tokens.map(|tokens| (tokens, Basis::Reported));
        let reused = traced.or(told);
        request.reused_tokens = reused.map(|(tokens, _)| tokens);
        request.reused_basis = reused.map(|(_, basis)| basis);
        let origins = found.map(|found| found.origins).unwrap_or_default();
        self.tokens.settle(index, &origins, &mut out.tokens);
    }

    /// The request that a token answers, if one is open.
    fn note_first_token(&mut self, sequence: i32, time_ns: u64) -> Option<usize> {
        let index = self.open_request(sequence)?;
        self.outcome.requests[index].first_token_ns.get_or_insert(time_ns);
        Some(index)
    }

    /// The request of a sequence that is being answered.
    fn open_request(&self, sequence: i32) -> Option<usize> {
        self.open_requests.iter().rev().copied().find(|&index| self.outcome.requests[index].sequence == sequence)
    }
}

/// Tokens in the context of tokens at these positions.
fn context_tokens(positions: impl Iterator<Item = i32>) -> Option<u32> {
    positions.max().and_then(|last| u32::try_from(last).ok()).map(|last| last.saturating_add(1))
}
