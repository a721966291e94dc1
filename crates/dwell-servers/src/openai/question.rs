//! What is sent to a server with the API of OpenAI.

use dwell_events::engine::EngineKind;
use dwell_events::server::Api;
use serde_json::{Value, json};

use super::seed_of;
use crate::client::Asked;
use crate::http::HttpError;

/// Which of the API's variants a server speaks. What it refuses by name is left out from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// `max_completion_tokens` instead of `max_tokens`.
    has_new_limit: bool,
    /// Whether the count of tokens can be asked for.
    has_stream_options: bool,
    /// Whether ids of tokens can be asked for.
    has_token_ids: bool,
}

impl Dialect {
    /// What a server of this kind speaks, until it says otherwise.
    pub(super) fn of(engine: EngineKind) -> Self {
        Self { has_new_limit: false, has_stream_options: true, has_token_ids: engine.profile().reports_token_ids }
    }

    /// Takes a refusal to heart; true if the question will be another one.
    pub(super) fn learn_from(&mut self, error: &HttpError) -> bool {
        let HttpError::Status { status: 400 | 422, said, .. } = error else { return false };
        let before = *self;
        if said.contains("max_completion_tokens") {
            self.has_new_limit = true;
        } else if said.contains("stream_options") {
            self.has_stream_options = false;
        } else if said.contains("return_token_ids") {
            self.has_token_ids = false;
        }
        *self != before
    }

    /// The body of a request.
    pub(super) fn question(&self, model: &str, asked: &Asked<'_>) -> Value {
        let mut body = json!({
            "model": model,
            "stream": true,
            "temperature": asked.options.temperature,
            "seed": seed_of(asked.options, asked.sequence),
        });
        match asked.server.api {
            Api::Completion => body["prompt"] = asked.text.into(),
            Api::Chat => body["messages"] = messages(asked),
        }
        let limit = if self.has_new_limit { "max_completion_tokens" } else { "max_tokens" };
        body[limit] = asked.max_tokens.into();
        if self.has_stream_options {
            body["stream_options"] = json!({"include_usage": true});
        }
        if self.has_token_ids {
            body["return_token_ids"] = true.into();
        }
        if asked.options.ignore_end {
            body["ignore_eos"] = true.into();
        }
        body
    }
}

/// The body of a question for the number of tokens, as vLLM and SGLang take it.
pub(super) fn to_tokenize(model: &str, asked: &Asked<'_>) -> Value {
    match asked.server.api {
        Api::Completion => json!({"model": model, "prompt": asked.text}),
        Api::Chat => json!({"model": model, "messages": messages(asked)}),
    }
}

/// A conversation as the messages of a chat.
pub(crate) fn messages(asked: &Asked<'_>) -> Value {
    asked.turns.iter().map(|turn| json!({"role": turn.speaker.role(), "content": turn.text})).collect()
}
