//! What is sent to Ollama.

use dwell_events::engine::EngineOptions;
use dwell_events::server::Api;
use serde_json::{Value, json};

use crate::client::Asked;
use crate::openai::{messages, seed_of};

/// Positions of each conversation.
pub(super) fn context_per_sequence(options: &EngineOptions) -> u32 {
    options.context_length / options.parallel.max(1)
}

/// What every request carries, and all that one carries that only loads the model. A request that differs in it makes
/// Ollama load the model anew.
pub(super) fn request(options: &EngineOptions, model: &str) -> Value {
    json!({
        "model": model,
        // A prompt that does not fit is refused rather than cut.
        "truncate": false,
        "shift": options.context_shift,
        "options": {
            "num_ctx": context_per_sequence(options),
            "num_batch": options.batch_size,
            "num_thread": options.threads,
            "use_mmap": options.mmap,
        },
    })
}

/// A request for text: its path and its body.
pub(super) fn question(model: &str, asked: &Asked<'_>) -> (&'static str, Value) {
    let mut body = request(asked.options, model);
    body["stream"] = true.into();
    body["options"]["num_predict"] = asked.max_tokens.into();
    body["options"]["temperature"] = asked.options.temperature.into();
    body["options"]["seed"] = seed_of(asked.options, asked.sequence).into();
    match asked.server.api {
        Api::Completion => {
            body["prompt"] = asked.text.into();
            body["raw"] = true.into();
            ("/api/generate", body)
        }
        Api::Chat => {
            body["messages"] = messages(asked);
            ("/api/chat", body)
        }
    }
}
