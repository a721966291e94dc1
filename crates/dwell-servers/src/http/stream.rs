use std::collections::VecDeque;
use std::time::Duration;

use dwell_clock::monotonic_ns;
use serde::de::DeserializeOwned;

use super::error::first_characters;
use super::exchange::Exchange;
use super::{HttpError, HttpLimits};
use crate::ndjson::LineDecoder;
use crate::sse::SseDecoder;

/// Bytes of an answer that may come between two tokens: comments, events without text, ids of the prompt. The longest prompt
/// of any model is a tenth of it.
const TOKENLESS_MAX_BYTES: u64 = 16 << 20;

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
    /// Longest time without a token.
    longest_wait: Duration,
    /// When the last token came, or the answer began.
    token_ns: u64,
    bytes_since_token: u64,
}

/// An answer of server-sent events.
pub(crate) type EventStream = Stream<SseDecoder>;

/// An answer of lines.
pub(crate) type LineStream = Stream<LineDecoder>;

impl EventStream {
    pub(super) fn events(exchange: Exchange, limits: &HttpLimits) -> Self {
        Self::new(exchange, SseDecoder::new(limits.line_bytes), limits.silence)
    }
}

impl LineStream {
    pub(super) fn lines(exchange: Exchange, limits: &HttpLimits) -> Self {
        Self::new(exchange, LineDecoder::new(limits.line_bytes), limits.silence)
    }
}

impl<D: Decoder> Stream<D> {
    fn new(exchange: Exchange, decoder: D, longest_wait: Duration) -> Self {
        Self {
            exchange,
            decoder,
            ready: VecDeque::new(),
            end: None,
            taken: 0,
            longest_wait,
            token_ns: monotonic_ns(),
            bytes_since_token: 0,
        }
    }

    /// Notes that an item brought a token. An answer goes on only as long as tokens come.
    pub(crate) fn note_token(&mut self) {
        self.token_ns = monotonic_ns();
        self.bytes_since_token = 0;
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
            Ok(Some(arrived)) => {
                self.bytes_since_token += arrived.bytes.len() as u64;
                (arrived.arrived_ns, self.decoder.push(&arrived.bytes, &mut items), false)
            }
            Ok(None) => (monotonic_ns(), self.decoder.finish(&mut items), true),
            Err(error) => return self.end = Some(Err(error)),
        };
        for item in items {
            self.taken += 1;
            self.ready.push_back(Arrived { arrived_ns, number: self.taken, item });
        }
        match decoded {
            Ok(()) if is_last => self.end = Some(Ok(())),
            Ok(()) => self.end = self.tokenless().map(Err),
            Err(error) => self.end = Some(Err(self.decode_failure(error))),
        }
    }

    /// The error of an answer that goes on without a token.
    fn tokenless(&self) -> Option<HttpError> {
        if self.bytes_since_token > TOKENLESS_MAX_BYTES {
            let mib = TOKENLESS_MAX_BYTES >> 20;
            return Some(self.cut_off(&format!("it went on for {mib} MiB without a token, and dwell ended it")));
        }
        let waited = Duration::from_nanos(monotonic_ns().saturating_sub(self.token_ns));
        let is_too_long = waited > self.longest_wait;
        is_too_long.then(|| {
            self.cut_off(&format!("it went on for {} s without a token, and dwell ended it", waited.as_secs()))
        })
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use dwell_events::engine::EngineKind;

    use super::super::{HttpClient, Interruption};
    use super::*;

    #[test]
    fn keep_alives_do_not_put_off_the_end_of_a_silent_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let mut sent = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
            while sent.is_ok() {
                thread::sleep(Duration::from_millis(10));
                sent = connection.write_all(b": keep-alive\n\n");
            }
        });
        let limits = HttpLimits { silence: Duration::from_millis(500), ..HttpLimits::default() };
        let client = HttpClient::new(EngineKind::OpenAi, &url, None, Interruption::default()).unwrap();
        let mut stream = client.with_limits(limits).post_events("/", &()).unwrap();
        let error = stream.next_item().unwrap_err().to_string();
        assert!(error.contains("it went on for 0 s without a token, and dwell ended it"), "{error}");
    }
}
