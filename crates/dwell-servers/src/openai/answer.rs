//! What a server with the API of OpenAI answers, event by event.

use dwell_events::server::RequestTimings;
use serde::Deserialize;
use serde_json::Value;

use crate::client::Piece;
use crate::http::message_of;

/// One event of a stream.
#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    /// What llama.cpp says besides.
    #[serde(default)]
    timings: Option<LlamaTimings>,
    /// What vLLM says beside the first piece of a message; of a text, it says the same inside it.
    #[serde(default)]
    prompt_token_ids: Option<Vec<i32>>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
    token_ids: Option<Vec<i32>>,
    prompt_token_ids: Option<Vec<i32>>,
    finish_reason: Option<String>,
}

/// A piece of a message. Servers name what a model thinks before it answers in either way.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct LlamaTimings {
    #[serde(default)]
    cache_n: Option<u64>,
    #[serde(default)]
    prompt_ms: Option<f64>,
    #[serde(default)]
    predicted_ms: Option<f64>,
}

impl Chunk {
    /// What the server says if it cannot go on.
    pub(super) fn error_said(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|error| !error.is_null())?;
        Some(message_of(error).unwrap_or_else(|| error.as_str().map_or_else(|| error.to_string(), str::to_owned)))
    }

    /// Whether the model says nothing after it.
    pub(super) fn is_last(&self) -> bool {
        self.choices.iter().any(|choice| choice.finish_reason.is_some())
    }

    /// What it says of the request.
    pub(super) fn add_timings(&self, timings: &mut RequestTimings) {
        if let Some(usage) = &self.usage {
            timings.prompt_tokens = usage.prompt_tokens.or(timings.prompt_tokens);
            timings.generated_tokens = usage.completion_tokens.or(timings.generated_tokens);
            let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
            timings.cached_tokens = cached.or(timings.cached_tokens);
        }
        if let Some(llama) = &self.timings {
            timings.cached_tokens = llama.cache_n.or(timings.cached_tokens);
            timings.prompt_ns = llama.prompt_ms.and_then(ns_of_ms).or(timings.prompt_ns);
            timings.decode_ns = llama.predicted_ms.and_then(ns_of_ms).or(timings.decode_ns);
        }
    }

    /// Ids of the prompt's tokens, if it says them. The event of a message that does so has no text yet.
    pub(super) fn take_prompt_ids(&mut self) -> Vec<i32> {
        let in_choice = self.choices.iter_mut().find_map(|choice| choice.prompt_token_ids.take());
        in_choice.or_else(|| self.prompt_token_ids.take()).unwrap_or_default()
    }

    /// The text that came with it; none if it carries none.
    pub(super) fn into_piece(self, arrived_ns: u64) -> Option<Piece> {
        let choice = self.choices.into_iter().next()?;
        let delta = choice.delta.unwrap_or_default();
        let parts = [choice.text, delta.reasoning_content.or(delta.reasoning), delta.content];
        let text: String = parts.into_iter().flatten().collect();
        let token_ids = choice.token_ids.unwrap_or_default();
        if text.is_empty() && token_ids.is_empty() {
            return None;
        }
        let tokens = u32::try_from(token_ids.len()).unwrap_or(u32::MAX).max(1);
        Some(Piece { arrived_ns, text, token_ids, tokens, ..Piece::default() })
    }
}

/// Nanoseconds, if the milliseconds are a time at all.
fn ns_of_ms(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then_some((ms * 1e6) as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn chunk(json: &str) -> Chunk {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn pieces_of_both_apis_are_read() {
        let completion = chunk(r#"{"choices":[{"index":0,"text":" Paris","finish_reason":null}]}"#);
        let piece = completion.into_piece(7).unwrap();
        assert_eq!(piece, Piece { arrived_ns: 7, text: " Paris".into(), tokens: 1, ..Piece::default() });
        let chat = chunk(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}"#);
        assert_eq!(chat.into_piece(0).unwrap().text, "Hello");
        let thinking = chunk(r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}"#);
        assert_eq!(thinking.into_piece(0).unwrap().text, "hm");
    }

    #[test]
    fn ids_say_how_many_tokens_a_piece_has_even_without_text() {
        let two = chunk(r#"{"choices":[{"text":"ab","token_ids":[5,6]}]}"#).into_piece(0).unwrap();
        assert_eq!((two.tokens, two.token_ids), (2, vec![5, 6]));
        let silent = chunk(r#"{"choices":[{"text":"","token_ids":[9]}]}"#).into_piece(0).unwrap();
        assert_eq!((silent.tokens, silent.text.as_str()), (1, ""));
    }

    #[test]
    fn a_chunk_without_text_is_no_piece_and_its_figures_are_kept() {
        let usage = chunk(
            r#"{"choices":[],"usage":{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":8}}"#,
        );
        let mut timings = RequestTimings::default();
        usage.add_timings(&mut timings);
        assert_eq!(
            (timings.prompt_tokens, timings.cached_tokens, timings.generated_tokens),
            (Some(12), Some(4), Some(8))
        );
        assert!(usage.into_piece(0).is_none());
        let role = chunk(r#"{"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null}"#);
        role.add_timings(&mut timings);
        assert_eq!(timings.generated_tokens, Some(8), "an empty usage takes nothing back");
        assert!(role.into_piece(0).is_none());
    }

    #[test]
    fn tokens_of_the_prompt_are_found_in_a_text_and_beside_a_message() {
        for json in [
            r#"{"choices":[{"text":"a","prompt_token_ids":[51,71],"token_ids":[9]}]}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[51,71]}"#,
        ] {
            assert_eq!(chunk(json).take_prompt_ids(), [51, 71]);
        }
        assert!(chunk(r#"{"choices":[{"text":"a","prompt_token_ids":null}]}"#).take_prompt_ids().is_empty());
    }

    #[test]
    fn timings_of_llama_cpp_become_nanoseconds_and_nonsense_becomes_nothing() {
        let mut timings = RequestTimings::default();
        chunk(r#"{"choices":[],"timings":{"cache_n":3,"prompt_ms":1.5,"predicted_ms":-1}}"#).add_timings(&mut timings);
        assert_eq!((timings.cached_tokens, timings.prompt_ns, timings.decode_ns), (Some(3), Some(1_500_000), None));
    }

    #[test]
    fn an_error_in_the_stream_is_seen_in_every_shape() {
        for (json, said) in [
            (r#"{"error":{"message":"out of memory","code":500}}"#, "out of memory"),
            (r#"{"error":"out of memory"}"#, "out of memory"),
        ] {
            assert_eq!(chunk(json).error_said().as_deref(), Some(said));
        }
        assert_eq!(chunk(r#"{"choices":[],"error":null}"#).error_said(), None);
    }
}
