//! What every runtime can do, however it is reached.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use dwell_events::engine::{EngineOptions, LoadedModel};
use dwell_events::server::{ReportedBuffer, RequestTimings, ServerDescription, ServerOptions};

use crate::ServerError;

/// A runtime that is reached or started, and asked.
///
/// The driver calls [`start`](Runtime::start), [`load`](Runtime::load), then the rest, and [`stop`](Runtime::stop) at the
/// end, whatever happened before.
pub trait Runtime: Send {
    /// Starts the program, if one is to be started, and does not wait for it.
    fn start(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        Ok(())
    }

    /// Waits until it answers and the model is loaded, so that the request that follows need not load it.
    fn load(&mut self, _asked: &Asked<'_>) -> Result<(), ServerError> {
        Ok(())
    }

    /// Whether it has to be started and loaded for every request anew.
    fn is_loaded_for_each_request(&self) -> bool {
        false
    }

    /// What it says of itself and of the model.
    fn facts(&mut self) -> Result<ServerDescription, ServerError>;

    /// What it says of the model in the words of the embedded engine; what it does not say is 0 or empty.
    fn model(&mut self) -> LoadedModel {
        LoadedModel::default()
    }

    /// Processes that run the model, with their role; asked again now and then, because servers replace their runners.
    fn processes(&mut self) -> Vec<(u32, &'static str)>;

    /// Asks for text and hands over each piece as it arrives. Breaking ends the request; that is no error, and neither is
    /// an interruption.
    fn generate(
        &mut self,
        asked: &Asked<'_>,
        on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<RequestTimings, ServerError>;

    /// Another connection to the same server, for a request beside those of this one; it owns no program. `None` if it
    /// answers one request at a time.
    fn another(&self) -> Option<Box<dyn Runtime>> {
        None
    }

    /// How many tokens a text has as the prompt of a request, with those that the runtime puts around it; `None` if it
    /// has no way to say but to be asked.
    fn count_tokens(&mut self, _asked: &Asked<'_>) -> Result<Option<u64>, ServerError> {
        Ok(None)
    }

    /// Whether counting takes no computation of the model, so that it can be done often.
    fn is_counting_cheap(&self) -> bool {
        false
    }

    /// Figures that it publishes, by name; none if it publishes none.
    fn metrics(&mut self) -> Result<Option<BTreeMap<String, f64>>, ServerError> {
        Ok(None)
    }

    /// Buffers that it says it has allocated; empty if it does not say.
    fn buffers(&mut self) -> Vec<ReportedBuffer> {
        Vec::new()
    }

    /// Makes it forget the model, so that the next request loads it. False if it cannot.
    fn unload(&mut self) -> Result<bool, ServerError> {
        Ok(false)
    }

    /// How a program that was started for it ended, if it did, with its last words.
    fn death(&mut self) -> Option<String> {
        None
    }

    /// Ends what was started for it and waits for the end; what was joined is left alone.
    fn stop(&mut self) {}
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The whole text so far, the model's answers included.
    pub text: &'a str,
    /// The same text as the turns of a conversation, for a request by chat.
    pub turns: &'a [Turn],
    /// Number of the conversation; a server with slots keeps each in its own.
    pub sequence: i32,
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// How the model is set up: seed, temperature, whether generation goes on after an end.
    pub options: &'a EngineOptions,
    /// How the server is asked.
    pub server: &'a ServerOptions,
}

/// Part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who said it.
    pub speaker: Speaker,
    /// What was said.
    pub text: String,
}

/// Who says a part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Who asks.
    User,
    /// The model.
    Model,
}

impl Speaker {
    /// The role in the messages of chat APIs.
    pub fn role(self) -> &'static str {
        match self {
            Speaker::User => "user",
            Speaker::Model => "assistant",
        }
    }
}

/// A piece of text, in most runtimes one token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// CLOCK_MONOTONIC time at which it arrived.
    pub arrived_ns: u64,
    /// Its text.
    pub text: String,
    /// Ids of its tokens, if the server says them; if it says fewer than there are, those of the last ones.
    pub token_ids: Vec<i32>,
    /// How many tokens it has; more than one only where the server says so.
    pub tokens: u32,
    /// Ids of the prompt's tokens, which a server may say with the first piece.
    pub prompt_ids: Vec<i32>,
}
