//! When things happened in a run: its phases, and the requests that a server answered.
//!
//! Labelling finds the spans, analysis computes with them and `metadata.json` keeps them, all with these types. The
//! keys in the file are the names of the fields.

use serde::{Deserialize, Serialize};

use crate::server::RequestTimings;
use crate::{Basis, Phase};

/// When a phase was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// The phase.
    pub phase: Phase,
    /// Its first moment.
    pub begin_ns: u64,
    /// Its last moment.
    pub end_ns: u64,
}

impl PhaseSpan {
    /// How long the phase took.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// A request to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSpan {
    /// Sequence that the request continued.
    pub sequence: i32,
    /// When the request was sent.
    pub begin_ns: u64,
    /// When its first token arrived; none if no token did.
    pub first_token_ns: Option<u64>,
    /// When its answer was complete; none if it never was.
    pub end_ns: Option<u64>,
    /// Tokens of the prompt that were found in the cache and not computed: as the trace shows, else as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_tokens: Option<u64>,
    /// Which of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_basis: Option<Basis>,
    /// What the server says about the request.
    #[serde(flatten)]
    pub timings: RequestTimings,
}

impl RequestSpan {
    /// Tokens of the prompt that were computed rather than found in the cache.
    pub fn computed_prompt_tokens(&self) -> Option<u64> {
        Some(self.timings.prompt_tokens?.saturating_sub(self.reused().unwrap_or(0)))
    }

    /// Tokens of the prompt that were found in the cache; metadata of older versions has only what the server said.
    pub fn reused(&self) -> Option<u64> {
        self.reused_tokens.or(self.timings.cached_tokens)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_keep_the_keys_that_metadata_files_have() {
        let phase = PhaseSpan { phase: Phase::WeightLoad, begin_ns: 5, end_ns: 9 };
        let phase_json = json!({"phase": "weight_load", "begin_ns": 5, "end_ns": 9});
        assert_eq!(serde_json::to_value(phase).unwrap(), phase_json);
        assert_eq!(serde_json::from_value::<PhaseSpan>(phase_json).unwrap(), phase);
        let timings = RequestTimings { prompt_tokens: Some(12), cached_tokens: Some(4), ..RequestTimings::default() };
        let request =
            RequestSpan { sequence: 1, begin_ns: 7, first_token_ns: Some(8), timings, ..RequestSpan::default() };
        let request_json = json!({
            "sequence": 1, "begin_ns": 7, "first_token_ns": 8, "end_ns": null,
            "prompt_tokens": 12, "cached_tokens": 4, "generated_tokens": null, "load_ns": null, "prompt_ns": null,
            "decode_ns": null, "total_ns": null,
        });
        assert_eq!(serde_json::to_value(request).unwrap(), request_json);
        assert_eq!(serde_json::from_value::<RequestSpan>(request_json).unwrap(), request);
        assert_eq!(request.computed_prompt_tokens(), Some(8));
        let traced = RequestSpan { reused_tokens: Some(5), reused_basis: Some(Basis::Exact), ..request };
        assert_eq!(traced.computed_prompt_tokens(), Some(7), "the trace is believed before the server");
    }
}
