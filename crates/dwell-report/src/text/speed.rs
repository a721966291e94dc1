//! Tokens and speed as text.

use dwell_metadata::Generation;

use super::{count, counted, or_dash};

/// How many tokens, and how fast.
pub fn speed_line(generation: &Generation) -> String {
    let rate = |rate: Option<f64>| or_dash(rate, |rate| format!("{rate:.1} tokens/s"));
    let reused = match generation.cached_tokens {
        0 => String::new(),
        tokens => format!(" ({} reused from the cache)", count(tokens)),
    };
    let is_seen = generation.decode_ns == 0 && generation.decode_tokens_per_s.is_some();
    format!(
        "prompt {}{reused} at {}, generated {} at {}{}",
        counted(generation.prompt_tokens, "token"),
        rate(generation.prompt_tokens_per_s),
        counted(generation.generated_tokens, "token"),
        rate(generation.decode_tokens_per_s),
        if is_seen { ", as the client saw it" } else { "" },
    )
}
