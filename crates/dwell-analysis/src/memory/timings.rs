//! The times of a run: loading apart from generating, and what client and server each saw.

use dwell_events::{Phase, PhaseSpan, RequestSpan};
use serde::{Deserialize, Serialize};

use super::inputs::MemoryInputs;
use super::token_times::Answer;
use crate::statistics::median;

/// Tokens per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Speed {
    /// Of prompts.
    pub prompt_tokens_per_s: Option<f64>,
    /// Of decoding.
    pub decode_tokens_per_s: Option<f64>,
}

/// The times of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunTimings {
    /// From the start of the engine until the model was ready.
    pub load_ns: Option<u64>,
    /// From then until the last token.
    pub generation_ns: Option<u64>,
    /// From a request to its first token, the median of all; without requests, from the beginning of the generation.
    pub time_to_first_token_ns: Option<f64>,
    /// Time between two tokens of an answer, the median.
    pub inter_token_p50_ns: Option<f64>,
    /// The same, exceeded by one in a hundred.
    pub inter_token_p99_ns: Option<f64>,
    /// As tokens arrived. Of prompts, the time to the first token counts.
    pub client: Speed,
    /// By the times that the server says.
    pub server: Speed,
    /// Requests that were answered to their end.
    pub requests: u64,
}

impl RunTimings {
    pub(super) fn of(inputs: &MemoryInputs<'_>) -> Self {
        // A run can go through a phase several times: dwell sets up the second prompt after the first answer.
        let phase_ns = |wanted: Phase| {
            let spans = inputs.phases.iter().filter(|span| span.phase == wanted);
            spans.map(PhaseSpan::duration_ns).reduce(u64::saturating_add)
        };
        let mut waits: Vec<f64> = first_token_waits(inputs).iter().map(|(wait_ns, _)| *wait_ns as f64).collect();
        let mut intervals: Vec<f64> = inputs.tokens.intervals_ns().iter().map(|&interval| interval as f64).collect();
        Self {
            load_ns: phase_ns(Phase::WeightLoad),
            generation_ns: phase_ns(Phase::Generation),
            time_to_first_token_ns: median(&mut waits),
            inter_token_p50_ns: median(&mut intervals),
            inter_token_p99_ns: high_quantile(&mut intervals),
            client: client_speed(inputs),
            server: server_speed(inputs.requests),
            requests: inputs.requests.iter().filter(|request| request.end_ns.is_some()).count() as u64,
        }
    }
}

/// The value that one in a hundred exceeds.
fn high_quantile(values: &mut [f64]) -> Option<f64> {
    let rank = (values.len() * 99).div_ceil(100).checked_sub(1)?;
    Some(*values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// Time from each request to its first token, and the tokens of its prompt that were computed.
fn first_token_waits(inputs: &MemoryInputs<'_>) -> Vec<(u64, Option<u64>)> {
    if inputs.requests.is_empty() {
        let begin = inputs.phase(Phase::Generation).map(|span| span.begin_ns);
        let first = inputs.tokens.answers().first();
        let before = |answer: &Answer| {
            let prompts = inputs.tokens.prompts().iter().filter(|(time_ns, _)| *time_ns <= answer.first_ns);
            prompts.map(|(_, count)| count).sum::<u64>()
        };
        let wait = begin.zip(first).and_then(|(begin, first)| Some((first.first_ns.checked_sub(begin)?, first)));
        return wait.map(|(wait_ns, first)| (wait_ns, Some(before(first)))).into_iter().collect();
    }
    let waits = inputs.requests.iter().filter_map(|request| {
        Some((request.first_token_ns?.checked_sub(request.begin_ns)?, request.computed_prompt_tokens()))
    });
    waits.collect()
}

fn client_speed(inputs: &MemoryInputs<'_>) -> Speed {
    let prompts: Vec<(u64, u64)> =
        first_token_waits(inputs).into_iter().filter_map(|(wait_ns, tokens)| Some((tokens?, wait_ns))).collect();
    let decoded = inputs
        .tokens
        .answers()
        .iter()
        .map(|answer| (answer.tokens - 1, answer.last_ns.saturating_sub(answer.first_ns)));
    Speed { prompt_tokens_per_s: rate(prompts), decode_tokens_per_s: rate(decoded) }
}

fn server_speed(requests: &[RequestSpan]) -> Speed {
    let prompts = requests.iter().filter_map(|request| request.computed_prompt_tokens().zip(request.timings.prompt_ns));
    // The first token comes from the prompt, and its time is the prompt's.
    let decoded = requests
        .iter()
        .filter_map(|request| Some((request.timings.generated_tokens?.saturating_sub(1), request.timings.decode_ns?)));
    Speed { prompt_tokens_per_s: rate(prompts), decode_tokens_per_s: rate(decoded) }
}

/// Tokens per second over all pairs of tokens and nanoseconds; none if neither took any time.
fn rate(parts: impl IntoIterator<Item = (u64, u64)>) -> Option<f64> {
    let (tokens, ns) = parts
        .into_iter()
        .fold((0u64, 0u64), |(tokens, ns), part| (tokens.saturating_add(part.0), ns.saturating_add(part.1)));
    (tokens > 0 && ns > 0).then(|| tokens as f64 * 1e9 / ns as f64)
}
