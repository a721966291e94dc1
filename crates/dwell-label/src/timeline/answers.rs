//! Which computations gave the tokens of an answer.
//!
//! A token arrives some time after its computation, when the next ones may be done already, and a server does not say in
//! which of its slots it answers. When an answer is complete, its lane is the one that computed a prompt of that length
//! and as many tokens after it, none of them after it had arrived.

use std::cmp::Reverse;

use super::lanes::{Computed, Lane};

/// An answer whose computations are looked for.
pub(super) struct Wanted<'a> {
    pub(super) begin_ns: u64,
    pub(super) sequence: i32,
    /// Tokens of its prompt, if the server said so.
    pub(super) prompt_tokens: Option<u64>,
    /// When each of its tokens arrived.
    pub(super) arrived_ns: &'a [u64],
}

/// What gave a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// 0 for the first token of an answer, the step in the trace for the others.
    pub(super) step: u32,
    /// When the computation began; none if it was not seen.
    pub(super) begin_ns: Option<u64>,
    /// Bytes in the KV cache after it.
    pub(super) kv_bytes: u64,
}

/// What was found of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundAnswer {
    /// One for each token that arrived.
    pub(super) origins: Vec<Origin>,
    /// Tokens of the prompt that were in the cache.
    pub(super) reused_tokens: Option<u64>,
}

/// Finds the computations of an answer, and takes them from their lane. None if no lane has computed a prompt.
pub(super) fn claim<'a>(lanes: impl Iterator<Item = &'a mut Lane>, wanted: &Wanted<'_>) -> Option<FoundAnswer> {
    let rated = lanes.filter_map(|lane| {
        let end = end_of_prompt(&lane.computed, wanted)?;
        Some((rating(lane, end, wanted), end, lane))
    });
    let (_, end, lane) = rated.max_by_key(|(rating, _, _)| *rating)?;
    let computed = &mut lane.computed;
    let found = FoundAnswer {
        origins: origins(&computed[end..], wanted.arrived_ns.len()),
        reused_tokens: wanted
            .prompt_tokens
            .and_then(|tokens| tokens.checked_sub(prompt_rows(&computed[..=end], wanted))),
    };
    let decoded = decoded_after(computed, end);
    computed.drain(..=end + decoded);
    // The next token of the sequence is one of another prompt, unless that has begun already.
    lane.is_decoding &= !lane.computed.is_empty();
    Some(found)
}

/// The computation that ended the prompt: the first since the request, and of its length if that is known.
fn end_of_prompt(computed: &[Computed], wanted: &Wanted<'_>) -> Option<usize> {
    let is_end = |one: &&(usize, &Computed)| one.1.is_prompt && one.1.is_output;
    let is_since = |one: &(usize, &Computed)| one.1.begin_ns >= wanted.begin_ns;
    let fits = |one: &&(usize, &Computed)| fits_prompt(one.1, wanted);
    let ends: Vec<(usize, &Computed)> = computed.iter().enumerate().filter(|one| is_end(&one)).collect();
    let since = || ends.iter().filter(|one| is_since(one));
    let found = since().find(fits).or_else(|| since().next());
    // Streams of versions that told of a request when they could, not when it was made: it was computed before.
    found.or_else(|| ends.last()).map(|one| one.0)
}

fn fits_prompt(one: &Computed, wanted: &Wanted<'_>) -> bool {
    let tokens = u64::try_from(one.last_position).ok().and_then(|last| last.checked_add(1));
    wanted.prompt_tokens.is_some() && tokens == wanted.prompt_tokens
}

/// How well a lane fits, the most important first; of those that fit the same, the one that computed first.
fn rating(lane: &Lane, end: usize, wanted: &Wanted<'_>) -> (bool, bool, bool, bool, Reverse<u64>) {
    let of_answer = &lane.computed[end..=end + decoded_after(&lane.computed, end)];
    let mut times = of_answer.iter().zip(wanted.arrived_ns);
    let is_in_time = times.all(|(one, arrived_ns)| one.begin_ns <= *arrived_ns);
    // The last token of an answer may be computed or not.
    let has_length = of_answer.len().abs_diff(wanted.arrived_ns.len()) <= 1;
    let is_own_stream = lane.stream().is_some_and(|stream| i64::from(stream) == i64::from(wanted.sequence));
    let prompt = &lane.computed[end];
    (is_in_time, fits_prompt(prompt, wanted), has_length, is_own_stream, Reverse(prompt.begin_ns))
}

/// Computations of the answer that follow the end of its prompt.
fn decoded_after(computed: &[Computed], end: usize) -> usize {
    computed[end + 1..].iter().take_while(|one| !one.is_prompt).count()
}

/// Tokens of the prompt that were computed, in as many computations as it took.
fn prompt_rows(computed: &[Computed], wanted: &Wanted<'_>) -> u64 {
    let (mut rows, mut next_first) = (0, None);
    for one in computed.iter().rev() {
        let goes_on = next_first.is_none_or(|first| one.last_position.checked_add(1) == Some(first));
        let is_earlier = next_first.is_some() && one.begin_ns < wanted.begin_ns;
        if !one.is_prompt || !goes_on || is_earlier {
            break;
        }
        rows += u64::from(one.last_position.abs_diff(one.first_position)) + 1;
        next_first = Some(one.first_position);
    }
    rows
}

/// Where each token comes from, given the end of the prompt and what follows. What was not seen is counted on.
fn origins(computed: &[Computed], tokens: usize) -> Vec<Origin> {
    let seen = &computed[..=decoded_after(computed, 0)];
    let origin = |token: usize| match seen.get(token) {
        Some(one) => Origin { step: one.step, begin_ns: Some(one.begin_ns), kv_bytes: one.kv_bytes },
        None => {
            let last = &seen[seen.len() - 1];
            let beyond = u32::try_from(token + 1 - seen.len()).unwrap_or(u32::MAX);
            Origin { step: last.decoded.saturating_add(beyond), begin_ns: None, kv_bytes: last.kv_bytes }
        }
    };
    // A prompt may be computed beside the tokens of other answers; its own first token follows a prompt all the same.
    let first = |index: usize, found: Origin| if index == 0 { Origin { step: 0, ..found } } else { found };
    (0..tokens).map(|token| first(token, origin(token))).collect()
}
