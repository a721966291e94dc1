use std::collections::VecDeque;

use serde::de::DeserializeOwned;

use super::error::first_characters;
use super::exchange::Exchange;
use super::{HttpError, HttpLimits};
use crate::ndjson::LineDecoder;
use crate::sse::SseDecoder;

/// Items of an answer that are taken at most. No model says so much; a server may send items without a token for ever.
const MOST_ITEMS: u64 = 1 << 20;

/// Turns the bytes of an answer into items, however the bytes are cut.
pub trait Decoder {
    /// What comes out.
    type Item;

    /// Takes bytes and appends the items that are whole now. Items before a fault are appended all the same.
    fn push(&mut self, bytes: &[u8], items: &mut Vec<Self::Item>) -> Result<(), DecodeError>;

    /// Takes the end.
    fn finish(&mut self, items: &mut Vec<Self::Item>) -> Result<(), DecodeError>;
}

/// Why bytes are no items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A line or an event has no end in sight.
    TooLong {
        /// The most bytes that are taken.
        limit_bytes: usize,
    },
    /// Not UTF-8.
    NotText {
        /// How it begins.
        found: String,
    },
}

/// Something that came in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrived<T> {
    /// CLOCK_MONOTONIC time at which its last byte came.
    pub(crate) arrived_ns: u64,
    /// Its number in the answer, from 1.
    pub(crate) number: u64,
    /// What came.
    pub(crate) item: T,
}

/// An answer that comes piece by piece. Dropping it ends the request.
pub(crate) struct Stream<D: Decoder> {
    exchange: Exchange,
    decoder: D,
    ready: VecDeque<Arrived<D::Item>>,
    /// What comes after everything that is ready: an error, or the end.
    end: Option<Result<(), HttpError>>,
    taken: u64,
}

/// An answer of server-sent events.
pub(crate) type EventStream = Stream<SseDecoder>;

/// An answer of lines.
pub(crate) type LineStream = Stream<LineDecoder>;

impl EventStream {
    pub(super) fn events(exchange: Exchange, limits: &HttpLimits) -> Self {
        Self::new(exchange, SseDecoder::new(limits.line_bytes))
    }
}

impl LineStream {
    pub(super) fn lines(exchange: Exchange, limits: &HttpLimits) -> Self {
        Self::new(exchange, LineDecoder::new(limits.line_bytes))
    }
}

impl<D: Decoder> Stream<D> {
    fn new(exchange: Exchange, decoder: D) -> Self {
        Self { exchange, decoder, ready: VecDeque::new(), end: None, taken: 0 }
    }

    /// Waits for the next item; `None` is the proper end of the answer.
    pub(crate) fn next_item(&mut self) -> Result<Option<Arrived<D::Item>>, HttpError> {
        loop {
            if let Some(arrived) = self.ready.pop_front() {
                return Ok(Some(arrived));
            }
            match self.end.take() {
                Some(Ok(())) => {
                    self.end = Some(Ok(()));
                    return Ok(None);
                }
                Some(Err(error)) => return Err(error),
                None => self.take_more(),
            }
        }
    }

    fn take_more(&mut self) {
        let mut items = Vec::new();
        let (arrived_ns, decoded, is_last) = match self.exchange.next_bytes() {
            Ok(Some(arrived)) => (arrived.arrived_ns, self.decoder.push(&arrived.bytes, &mut items), false),
            Ok(None) => (dwell_clock::monotonic_ns(), self.decoder.finish(&mut items), true),
            Err(error) => return self.end = Some(Err(error)),
        };
        for item in items {
            self.taken += 1;
            self.ready.push_back(Arrived { arrived_ns, number: self.taken, item });
        }
        match decoded {
            Ok(()) if self.taken > MOST_ITEMS => {
                self.end = Some(Err(self.cut_off("it had a million events and did not end")));
            }
            Ok(()) if is_last => self.end = Some(Ok(())),
            Ok(()) => {}
            Err(error) => self.end = Some(Err(self.decode_failure(error))),
        }
    }

    fn decode_failure(&self, error: DecodeError) -> HttpError {
        let number = self.taken + 1;
        match error {
            DecodeError::TooLong { limit_bytes } => HttpError::TooLarge {
                asked: self.exchange.asked().to_owned(),
                part: format!("event {number}"),
                limit_bytes: limit_bytes as u64,
            },
            DecodeError::NotText { found } => self.malformed(number, "bytes that are no UTF-8", &found),
        }
    }

    /// The JSON of an item.
    pub(crate) fn json<T: DeserializeOwned>(&self, number: u64, text: &str) -> Result<T, HttpError> {
        serde_json::from_str(text).map_err(|error| self.malformed(number, &format!("invalid JSON ({error})"), text))
    }

    /// An error about what an item holds.
    pub(crate) fn malformed(&self, number: u64, reason: &str, found: &str) -> HttpError {
        HttpError::Malformed {
            asked: self.exchange.asked().to_owned(),
            part: format!("event {number}"),
            reason: reason.to_owned(),
            found: first_characters(found),
        }
    }

    /// The server said in an item that it cannot go on.
    pub(crate) fn broken_off(&self, number: u64, said: &str) -> HttpError {
        HttpError::BrokenOff { asked: self.exchange.asked().to_owned(), event: number, said: first_characters(said) }
    }

    /// The answer ended properly as HTTP, but not as the API says.
    pub(crate) fn cut_off(&self, reason: &str) -> HttpError {
        self.exchange.cut_off(reason)
    }
}
