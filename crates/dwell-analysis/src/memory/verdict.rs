//! Whether the KV cache explains how memory grew.

use serde::{Deserialize, Serialize};

use super::growth::{Growth, GrowthShape};
use super::series::MemoryKind;

dwell_events::choices! {
    /// What the growth of memory is taken for.
    VerdictKind {
        /// Memory grew as the KV cache should.
        KvGrowthExplained = "kv_growth_explained",
        /// Memory did not grow, and the whole KV cache was there before; or its buffer is reported, and growth cannot be told.
        Preallocated = "preallocated",
        /// Memory grew more than the KV cache should: a leak, or another cache.
        UnexplainedGrowth = "unexplained_growth",
        /// Memory grew less than the KV cache should, or not at all, and nothing says where the cache is.
        LessThanTheory = "less_than_theory",
        /// No buffer is reported, and what the KV cache should have grown cannot be told from the noise.
        BelowResolution = "below_resolution",
        /// No buffer is reported, and too few samples while tokens came, or too few tokens.
        TooFewSamples = "too_few_samples",
        /// Nothing says how much the KV cache should grow.
        NoTheory = "no_theory",
    }
}

/// The verdict, with what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the growth is taken for.
    pub kind: VerdictKind,
    /// The same in words, with the numbers.
    pub sentence: String,
    /// Bytes per token that the KV cache takes by theory.
    pub theory_bytes_per_token: Option<f64>,
    /// Bytes per token that memory grew.
    pub measured_bytes_per_token: Option<f64>,
    /// Bytes per token that the KV cache does not explain.
    pub beyond_theory_bytes_per_token: Option<f64>,
}

/// Where the KV cache was before the first token came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KvPresence {
    /// Its buffer, as the runtime says or the trace shows.
    pub(super) buffer_bytes: Option<u64>,
    /// The whole cache by theory, if memory had room for it.
    pub(super) fitting_bytes: Option<u64>,
    /// Memory that no reported buffer accounts for: programs and their heaps.
    pub(super) unreported_bytes: u64,
}

/// Relative difference from theory that counts as none.
const TOLERANCE: f64 = 0.02;
/// Share of theory below which memory did not grow.
const NO_GROWTH_SHARE: f64 = 0.1;
/// Growth below this many bytes is a matter of single pages.
const RESOLUTION_BYTES: f64 = 65_536.0;
/// Share of its memory by which a program grows without a leak: interpreters and allocators keep what their first
/// requests needed. vLLM's three processes took 0.03 % more over their first 1,900 tokens, and nothing over the next.
const SETTLING_SHARE: f64 = 0.001;
/// A leak goes on. Growth beyond theory that falls below this share of itself in the later half was a beginning: vLLM takes
/// 6 MB with its first answer.
const LASTING_SHARE: f64 = 0.5;
/// Growth must exceed the noise by this factor.
const NOISE_FACTOR: f64 = 4.0;
const TOO_FEW: &str = "there are too few samples between the first and the last token to tell how memory grew";

impl Verdict {
    pub(super) fn of(growth: Option<&Growth>, theory: Option<u64>, presence: KvPresence) -> Self {
        let theory = theory.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
        let (kind, sentence) = match (growth, theory) {
            (None, _) => untold(VerdictKind::TooFewSamples, TOO_FEW.to_owned(), presence),
            (Some(growth), None) => (VerdictKind::NoTheory, no_theory_text(growth)),
            (Some(growth), Some(theory)) => judged(growth, theory, presence),
        };
        let measured = growth.map(|growth| growth.bytes_per_token);
        let beyond = measured.zip(theory).filter(|_| kind == VerdictKind::UnexplainedGrowth);
        Self {
            kind,
            sentence,
            theory_bytes_per_token: theory,
            measured_bytes_per_token: measured,
            beyond_theory_bytes_per_token: beyond.map(|(measured, theory)| measured - theory),
        }
    }
}

fn judged(growth: &Growth, theory: f64, presence: KvPresence) -> (VerdictKind, String) {
    let (slope, low, high) = (growth.bytes_per_token, growth.low_bytes_per_token, growth.high_bytes_per_token);
    // What a runtime shows of its tensors is no matter of pages.
    let pages = if growth.kind == MemoryKind::ToldKv { 0.0 } else { RESOLUTION_BYTES };
    let resolution = pages.max(NOISE_FACTOR * growth.noise_bytes);
    let (grown, expected) = (slope * growth.tokens, theory * growth.tokens);
    let facts = format!("memory grew {} per token, the KV cache takes {}", whole(slope), whole(theory));
    let is_within_tolerance = (slope / theory - 1.0).abs() <= TOLERANCE;
    if grown.max(expected) < resolution || (low <= 0.0 && high >= theory) {
        let text = format!(
            "{facts}, but {} over {:.0} tokens cannot be told from the noise of {} and of single pages",
            whole(expected),
            growth.tokens,
            whole(growth.noise_bytes)
        );
        return untold(VerdictKind::BelowResolution, text, presence);
    }
    if growth.shape == GrowthShape::OneBlock && growth.bytes >= NO_GROWTH_SHARE * expected {
        let text = format!(
            "memory grew once, by {}, over {:.0} tokens, and more tokens are needed to tell when the next block comes",
            whole(growth.bytes),
            growth.tokens
        );
        return untold(VerdictKind::TooFewSamples, text, presence);
    }
    if is_within_tolerance || (low > 0.0 && (low..=high).contains(&theory)) {
        return (VerdictKind::KvGrowthExplained, format!("{facts}: the KV cache explains the growth"));
    }
    if slope > theory {
        return beyond_theory(growth, theory, presence, &facts);
    }
    let has_grown = slope >= NO_GROWTH_SHARE * theory;
    match (presence.buffer_bytes, presence.fitting_bytes) {
        (Some(bytes), _) if has_grown => something_else_grew(&facts, bytes),
        (Some(bytes), _) => preallocated(slope, theory, "has a buffer of", bytes),
        (None, Some(bytes)) if !has_grown => {
            preallocated(slope, theory, "had room before the first token for all", bytes)
        }
        _ => (VerdictKind::LessThanTheory, format!("{facts}: part of the cache was there before, or is elsewhere")),
    }
}

/// Growth that cannot be told. Where the runtime reports the buffer of the cache, that alone says where the cache is.
fn untold(kind: VerdictKind, why: String, presence: KvPresence) -> (VerdictKind, String) {
    match presence.buffer_bytes {
        Some(bytes) => {
            let buffer = whole(bytes as f64);
            (
                VerdictKind::Preallocated,
                format!("the runtime has a buffer of {buffer}: the KV cache is preallocated; {why}"),
            )
        }
        None => (kind, why),
    }
}

/// Growth that the cache does not explain: a leak, unless it ends or is no more than a program of this size takes to settle.
fn beyond_theory(growth: &Growth, theory: f64, presence: KvPresence, facts: &str) -> (VerdictKind, String) {
    let slope = growth.bytes_per_token;
    let beyond = (slope - theory) * growth.tokens;
    let has_ended = growth.late_bytes_per_token.is_some_and(|late| late - theory < LASTING_SHARE * (slope - theory));
    let is_settling = has_ended || beyond < SETTLING_SHARE * presence.unreported_bytes as f64;
    match (is_settling, presence.buffer_bytes) {
        (true, Some(bytes)) => something_else_grew(facts, bytes),
        (true, None) => {
            let held = whole(presence.unreported_bytes as f64);
            let text = format!("{facts}, but {} more are no sign of a leak in programs of {held}", whole(beyond));
            (VerdictKind::BelowResolution, text)
        }
        (false, _) => {
            let text = format!("{facts}: {} per token are a leak or another cache", whole(slope - theory));
            (VerdictKind::UnexplainedGrowth, text)
        }
    }
}

/// It is known where the cache is: what grew beside it is something else.
fn something_else_grew(facts: &str, bytes: u64) -> (VerdictKind, String) {
    let text = format!("{facts}, which has a buffer of {}", whole(bytes as f64));
    (VerdictKind::Preallocated, format!("{text}: the KV cache is preallocated, and something else grew"))
}

/// Growth that is far from that of the cache is stated all the same: tables show it beside the sentence.
fn preallocated(slope: f64, theory: f64, how: &str, bytes: u64) -> (VerdictKind, String) {
    let growth = match slope.round() {
        grown if grown > 0.0 => {
            format!("memory grew only {} per token, the KV cache takes {},", whole(slope), whole(theory))
        }
        _ => "memory did not grow with tokens".to_owned(),
    };
    let text = format!("{growth} and the runtime {how} {}", whole(bytes as f64));
    (VerdictKind::Preallocated, format!("{text}: the KV cache is preallocated"))
}

fn no_theory_text(growth: &Growth) -> String {
    let slope = whole(growth.bytes_per_token);
    format!("memory grew {slope} per token; nothing says how much the KV cache takes")
}

/// Whole bytes of what a token takes, three digits of what a cache does: a sentence has no need for more.
fn whole(bytes: f64) -> String {
    const MEBIBYTE: f64 = 1_048_576.0;
    let sign = if bytes <= -0.5 { "−" } else { "" };
    let bytes = bytes.abs();
    let size = match bytes / MEBIBYTE {
        mebibytes if mebibytes < 1.0 => format!("{bytes:.0} bytes"),
        mebibytes if mebibytes < 10.0 => format!("{mebibytes:.2} MiB"),
        mebibytes if mebibytes < 100.0 => format!("{mebibytes:.1} MiB"),
        mebibytes if mebibytes < 1000.0 => format!("{mebibytes:.0} MiB"),
        mebibytes => format!("{:.2} GiB", mebibytes / 1024.0),
    };
    format!("{sign}{size}")
}
