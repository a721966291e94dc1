//! One request to the server: the text, its tokens as they come, and what the server says of it.

use std::ops::ControlFlow;

use dwell_events::server::RequestTimings;
use serde::Deserialize;
use serde_json::{Value, json};

use super::is_chat;
use crate::client::{Asked, Piece};
use crate::http::{EventStream, message_of};
use crate::openai::{messages, seed_of};
use crate::{HttpClient, ServerError};

/// One event of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    content: String,
    tokens: Vec<i32>,
    stop: bool,
    tokens_predicted: u64,
    tokens_evaluated: Option<u64>,
    timings: Option<Timings>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Timings {
    cache_n: Option<u64>,
    prompt_n: Option<u64>,
    prompt_ms: Option<f64>,
    predicted_n: Option<u64>,
    predicted_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Templated {
    prompt: String,
}

#[derive(Deserialize)]
struct Tokenized {
    tokens: Vec<Value>,
}

/// Asks, and hands over each piece.
pub(super) fn generate(
    http: &HttpClient,
    slots: Option<u32>,
    asked: &Asked<'_>,
    on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<RequestTimings, ServerError> {
    let begin_ns = dwell_clock::monotonic_ns();
    let answered = prompt_of(http, asked)
        .and_then(|prompt| Ok(http.post_events("/completion", &body(&prompt, slots, asked))?))
        .and_then(|mut stream| listen(&mut stream, on_piece));
    match answered {
        Ok(last) => Ok(last.map_or_else(RequestTimings::default, |(chunk, end_ns)| timings(&chunk, end_ns - begin_ns))),
        Err(error) if error.is_interrupted() => Ok(RequestTimings::default()),
        Err(error) => Err(too_long_or(error)),
    }
}

/// How many tokens the prompt of a request has.
pub(super) fn count_tokens(http: &HttpClient, asked: &Asked<'_>) -> Result<u64, ServerError> {
    let content = prompt_of(http, asked)?;
    let cut: Tokenized = http.post_json("/tokenize", &json!({ "content": content, "add_special": true }))?;
    Ok(cut.tokens.len() as u64)
}

/// The text that is completed: for a message, the model's template filled by the server.
fn prompt_of(http: &HttpClient, asked: &Asked<'_>) -> Result<String, ServerError> {
    if !is_chat(asked) {
        return Ok(asked.text.to_owned());
    }
    let templated: Templated = http.post_json("/apply-template", &json!({ "messages": messages(asked) }))?;
    Ok(templated.prompt)
}

fn body(prompt: &str, slots: Option<u32>, asked: &Asked<'_>) -> Value {
    let mut body = json!({
        "prompt": prompt,
        "n_predict": asked.max_tokens,
        "stream": true,
        "return_tokens": true,
        "cache_prompt": true,
        "seed": seed_of(asked.options, asked.sequence),
        "temperature": asked.options.temperature,
        "ignore_eos": asked.options.ignore_end,
    });
    let slot = u32::try_from(asked.sequence).ok().filter(|&slot| slots.is_some_and(|slots| slot < slots));
    if let Some(slot) = slot {
        body["id_slot"] = slot.into();
    }
    body
}

/// Reads the answer to its end; `None` if the listener broke it off.
fn listen(
    stream: &mut EventStream,
    on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<Option<(Chunk, u64)>, ServerError> {
    let mut known_tokens = 0;
    while let Some(arrived) = stream.next_item()? {
        let chunk: Chunk = stream.json(arrived.number, &arrived.item.data)?;
        if let Some(error) = &chunk.error {
            let said = message_of(&json!({ "error": error })).unwrap_or_else(|| error.to_string());
            return Err(stream.broken_off(arrived.number, &said).into());
        }
        // A token that ends inside a character is counted here and sent with the one that completes it.
        let tokens = chunk.tokens_predicted.saturating_sub(known_tokens);
        known_tokens = known_tokens.max(chunk.tokens_predicted);
        if tokens > 0 || !chunk.content.is_empty() {
            stream.note_token();
            let piece = Piece {
                arrived_ns: arrived.arrived_ns,
                text: chunk.content.clone(),
                token_ids: chunk.tokens.clone(),
                tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
                ..Piece::default()
            };
            if on_piece(piece).is_break() {
                return Ok(None);
            }
        }
        if chunk.stop {
            return Ok(Some((chunk, arrived.arrived_ns)));
        }
    }
    Err(stream.cut_off("the last event is missing").into())
}

fn timings(last: &Chunk, total_ns: u64) -> RequestTimings {
    let default = Timings::default();
    let said = last.timings.as_ref().unwrap_or(&default);
    let prompt_tokens = last.tokens_evaluated.or_else(|| said.prompt_n?.checked_add(said.cache_n?));
    RequestTimings {
        prompt_tokens,
        // Versions that do not say it say how many they computed.
        cached_tokens: said.cache_n.or_else(|| prompt_tokens?.checked_sub(said.prompt_n?)),
        generated_tokens: said.predicted_n.or(Some(last.tokens_predicted)),
        load_ns: None,
        prompt_ns: said.prompt_ms.map(nanoseconds),
        decode_ns: said.predicted_ms.map(nanoseconds),
        total_ns: Some(total_ns),
    }
}

fn nanoseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1e6).round() as u64
}

/// The server's refusal of a text that does not fit has a remedy of its own.
fn too_long_or(error: ServerError) -> ServerError {
    match error {
        ServerError::Http(http) if http.status() == Some(400) && http.to_string().contains("context size") => {
            ServerError::ContextTooSmall { said: http.to_string() }
        }
        other => other,
    }
}
