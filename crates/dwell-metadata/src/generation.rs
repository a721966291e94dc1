//! Tokens and speed of a run.

use dwell_analysis::memory::Speed;
use dwell_events::engine::WorkTotals;
use serde::{Deserialize, Serialize};

/// Tokens and speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Those of them that were found in a cache and not computed.
    pub cached_tokens: u64,
    /// Time in prompt steps.
    pub prompt_ns: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Time in decode steps.
    pub decode_ns: u64,
    /// Prompt tokens that were computed, per second; as the client saw it where the server tells no time (`prompt_ns` is 0).
    pub prompt_tokens_per_s: Option<f64>,
    /// Tokens per second in decode steps; the first token of a sequence comes from its prompt and is not counted. As the
    /// client saw it where the server tells no time (`decode_ns` is 0).
    pub decode_tokens_per_s: Option<f64>,
}

impl Generation {
    /// From the totals of a job, and the tokens that decode steps gave.
    pub fn of(totals: WorkTotals, decoded_tokens: u64) -> Self {
        let WorkTotals { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns } = totals;
        let rate = |tokens: u64, ns: u64| (ns > 0 && tokens > 0).then(|| tokens as f64 * 1e9 / ns as f64);
        Self {
            prompt_tokens,
            cached_tokens,
            prompt_ns,
            generated_tokens,
            decode_ns,
            prompt_tokens_per_s: rate(prompt_tokens.saturating_sub(cached_tokens), prompt_ns),
            decode_tokens_per_s: rate(decoded_tokens, decode_ns),
        }
    }

    /// With the speed that a client saw where the engine told no time.
    pub fn or_as_seen(self, client: &Speed) -> Self {
        Self {
            prompt_tokens_per_s: self.prompt_tokens_per_s.or(client.prompt_tokens_per_s),
            decode_tokens_per_s: self.decode_tokens_per_s.or(client.decode_tokens_per_s),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_were_in_the_cache_do_not_make_a_prompt_faster() {
        let totals = WorkTotals {
            prompt_tokens: 6_950,
            cached_tokens: 6_850,
            prompt_ns: 500_000_000,
            generated_tokens: 11,
            decode_ns: 1_000_000_000,
        };
        let generation = Generation::of(totals, 10);
        assert_eq!((generation.prompt_tokens, generation.cached_tokens), (6_950, 6_850));
        assert_eq!(generation.prompt_tokens_per_s, Some(200.0));
        assert_eq!(generation.decode_tokens_per_s, Some(10.0));
        let seen = Speed { prompt_tokens_per_s: Some(1.0), decode_tokens_per_s: Some(2.0) };
        assert_eq!(generation.or_as_seen(&seen), generation, "the engine's own times count more");
    }

    #[test]
    fn an_engine_that_tells_no_times_is_as_fast_as_its_client_saw() {
        let totals = WorkTotals { prompt_tokens: 100, generated_tokens: 11, ..WorkTotals::default() };
        let seen = Speed { prompt_tokens_per_s: Some(50.0), decode_tokens_per_s: Some(20.0) };
        let generation = Generation::of(totals, 10).or_as_seen(&seen);
        assert_eq!((generation.prompt_tokens_per_s, generation.decode_tokens_per_s), (Some(50.0), Some(20.0)));
        assert_eq!((generation.prompt_ns, generation.decode_ns), (0, 0));
    }
}
