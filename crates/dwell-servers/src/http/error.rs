use std::io;
use std::path::PathBuf;

use dwell_events::Hint;
use dwell_events::engine::EngineKind;

/// Most characters of an answer that a message shows.
const SHOWN_CHARACTERS: usize = 300;

/// Why a server could not be asked over HTTP, or its answer not be used. `asked` is the method and the address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address cannot be asked.
    #[error("reading the address of a server found {reason}, and http://HOST:PORT was needed: {url:?}")]
    BadAddress {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The key of the API is not where it should be.
    #[error("reading the key of the API found {reason} in the environment variable {variable}")]
    NoKey {
        /// The variable.
        variable: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// No connection could be made.
    #[error("asking {asked} reached no server: {reason}")]
    NotReached {
        /// What was asked.
        asked: String,
        /// The engine that was expected there.
        engine: EngineKind,
        /// What was found.
        reason: String,
    },

    /// The server refused.
    #[error("asking {asked} was answered with status {status}: {said}")]
    Status {
        /// What was asked.
        asked: String,
        /// Status code.
        status: u16,
        /// What the server says about it, cut.
        said: String,
    },

    /// The answer is not whole.
    #[error("reading the answer to {asked} ended after {received_bytes} bytes: {reason}")]
    CutOff {
        /// What was asked.
        asked: String,
        /// Bytes of the answer that had come.
        received_bytes: u64,
        /// What was found.
        reason: String,
    },

    /// Nothing came for too long.
    #[error("asking {asked}: no data from the server for {waited_s} s, after {received_bytes} bytes of the answer")]
    Silent {
        /// What was asked.
        asked: String,
        /// Bytes of the answer that had come.
        received_bytes: u64,
        /// How long was waited.
        waited_s: u64,
    },

    /// The answer is larger than any answer should be.
    #[error("reading the answer to {asked} found more than {limit_bytes} bytes in {part}")]
    TooLarge {
        /// What was asked.
        asked: String,
        /// What of it is too large: the body, an event.
        part: String,
        /// The most that is taken.
        limit_bytes: u64,
    },

    /// The answer is not what the API says.
    #[error("reading {part} of the answer to {asked} found {reason}: {found:?}")]
    Malformed {
        /// What was asked.
        asked: String,
        /// What of it: the body, an event.
        part: String,
        /// What is wrong.
        reason: String,
        /// How it begins.
        found: String,
    },

    /// The server reported an error in the middle of its answer.
    #[error("the server broke off its answer to {asked} at event {event}: {said}")]
    BrokenOff {
        /// What was asked.
        asked: String,
        /// Number of the event, from 1.
        event: u64,
        /// What the server says about it.
        said: String,
    },

    /// A file could not be sent.
    #[error("reading a file to be sent failed with {source}: {path:?}")]
    Upload {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The user ended it.
    #[error("asking {asked} was interrupted")]
    Interrupted {
        /// What was asked.
        asked: String,
    },
}

impl HttpError {
    /// Whether the user ended it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, HttpError::Interrupted { .. })
    }

    /// The status that the server refused with, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            HttpError::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl Hint for HttpError {
    fn hints(&self) -> Vec<String> {
        match self {
            HttpError::NotReached { engine, .. } => start_hints(*engine),
            HttpError::NoKey { variable, .. } => vec![format!("export {variable}=…")],
            HttpError::Status { status: 401 | 403, .. } => {
                vec!["name the environment variable that holds the key: --api-key-env NAME".to_owned()]
            }
            HttpError::Status { status: 404 | 405, .. } | HttpError::Malformed { .. } => {
                vec!["check that the address is that of the engine: --url http://HOST:PORT".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// How the server of an engine is usually started.
fn start_hints(engine: EngineKind) -> Vec<String> {
    let start = engine.profile().start_command.map(|command| format!("start it: {command}"));
    start.into_iter().chain([check_address_hint()]).collect()
}

fn check_address_hint() -> String {
    "check the address: --url http://HOST:PORT".to_owned()
}

/// What an error body says: the message that the known shapes carry, or its first characters.
pub(crate) fn said_in(body: &[u8]) -> String {
    let message = serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|value| message_of(&value));
    let text = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    if text.trim().is_empty() { "nothing".to_owned() } else { first_characters(&text) }
}

/// The message in an error object: `{"error": "…"}`, `{"error": {"message": "…"}}`, `{"message": "…"}`, `{"detail": "…"}`.
pub(crate) fn message_of(value: &serde_json::Value) -> Option<String> {
    let inner = ["error", "message", "detail"].into_iter().find_map(|key| value.get(key))?;
    let inner = inner.get("message").unwrap_or(inner);
    match inner {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn first_characters(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_taken_out_of_every_known_shape() {
        for (body, said) in [
            (r#"{"error":"model 'nope' not found"}"#, "model 'nope' not found"),
            (r#"{"error":{"message":"no","type":"not_found_error"}}"#, "no"),
            (r#"{"object":"error","message":"too long","code":400}"#, "too long"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"detail":[{"loc":["body"]}]}"#, r#"[{"loc":["body"]}]"#),
            ("404 page not found\n", "404 page not found"),
            ("", "nothing"),
            (r#"{"error":null}"#, r#"{"error":null}"#),
        ] {
            assert_eq!(said_in(body.as_bytes()), said, "{body}");
        }
    }

    #[test]
    fn long_answers_are_cut_between_characters() {
        let shown = first_characters(&"ä".repeat(1000));
        assert_eq!(shown.chars().count(), SHOWN_CHARACTERS + 1);
        assert!(shown.ends_with('…'));
    }
}
