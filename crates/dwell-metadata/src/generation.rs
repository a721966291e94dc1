//! Tokens and speed of a run.

use serde::{Deserialize, Serialize};

/// Tokens and speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Time in prompt steps.
    pub prompt_ns: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Time in decode steps.
    pub decode_ns: u64,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Tokens per second in decode steps; the first token of a sequence comes from its prompt and is not counted.
    pub decode_tokens_per_s: Option<f64>,
}

impl Generation {
    /// From tokens and time of prompts, tokens and time of decode steps, and the tokens that decode steps gave.
    pub fn of(
        (prompt_tokens, prompt_ns, generated_tokens, decode_ns): (u64, u64, u64, u64),
        decoded_tokens: u64,
    ) -> Self {
        let rate = |tokens: u64, ns: u64| (ns > 0 && tokens > 0).then(|| tokens as f64 * 1e9 / ns as f64);
        Self {
            prompt_tokens,
            prompt_ns,
            generated_tokens,
            decode_ns,
            prompt_tokens_per_s: rate(prompt_tokens, prompt_ns),
            decode_tokens_per_s: rate(decoded_tokens, decode_ns),
        }
    }
}
