//! One request and its answer, on a thread of its own, so that whoever waits can be interrupted.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_events::engine::EngineKind;
use ureq::http::{HeaderValue, Method, Request, header};
use ureq::{Agent, Timeout};

use super::{HttpError, Interruption};

/// How often a waiting caller asks whether it is interrupted.
const INTERRUPTION_POLL: Duration = Duration::from_millis(50);

/// Pieces that may wait for their reader; more stop the connection, as they should.
const WAITING_PIECES: usize = 256;

/// Bytes taken from the connection at once.
const READ_BYTES: usize = 64 * 1024;

/// What goes with a request.
pub(super) enum Payload {
    Nothing,
    Json(Vec<u8>),
    File(PathBuf),
}

/// A request that is about to be sent.
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) payload: Payload,
    pub(super) authorization: Option<HeaderValue>,
    pub(super) engine: EngineKind,
    /// The longest wait that the agent was set up for, for messages.
    pub(super) longest_wait: Duration,
}

/// Bytes of an answer, with the time at which they came.
pub(super) struct ArrivedBytes {
    pub(super) arrived_ns: u64,
    pub(super) bytes: Vec<u8>,
}

enum Message {
    Status(u16),
    Bytes(ArrivedBytes),
    End,
    Failed(ureq::Error),
    FileFailed(PathBuf, io::Error),
}

/// A request under way. Dropping it closes the connection, which ends the request on the server too.
pub(super) struct Exchange {
    asked: String,
    engine: EngineKind,
    longest_wait: Duration,
    agent: Agent,
    interruption: Interruption,
    incoming: Receiver<Message>,
    received_bytes: u64,
}

impl Exchange {
    /// Sends a request; the agent is for this one alone.
    pub(super) fn start(agent: Agent, ask: Ask, interruption: Interruption) -> Result<Self, HttpError> {
        let asked = format!("{} {}", ask.method, ask.url);
        let (engine, longest_wait) = (ask.engine, ask.longest_wait);
        let (outgoing, incoming) = sync_channel(WAITING_PIECES);
        let sender = agent.clone();
        let started = thread::Builder::new().name("http".to_owned()).spawn(move || {
            let last = converse(&sender, ask, &outgoing).unwrap_or_else(|failed| failed);
            // Nobody may be waiting any more.
            let _ = outgoing.send(last);
        });
        if let Err(error) = started {
            return Err(HttpError::NotReached { asked, engine, reason: format!("no thread for it ({error})") });
        }
        Ok(Self { asked, engine, longest_wait, agent, interruption, incoming, received_bytes: 0 })
    }

    /// What was asked, for messages.
    pub(super) fn asked(&self) -> &str {
        &self.asked
    }

    /// An error about the answer's end.
    pub(super) fn cut_off(&self, reason: impl Into<String>) -> HttpError {
        HttpError::CutOff { asked: self.asked.clone(), received_bytes: self.received_bytes, reason: reason.into() }
    }

    /// Waits for the status; to be called once, first.
    pub(super) fn status(&mut self) -> Result<u16, HttpError> {
        match self.next_message()? {
            Message::Status(status) => Ok(status),
            Message::Bytes(_) | Message::End => Err(self.cut_off("no status came first")),
            failed => Err(self.failure(failed, true)),
        }
    }

    /// Waits for more of the answer; `None` is its proper end.
    pub(super) fn next_bytes(&mut self) -> Result<Option<ArrivedBytes>, HttpError> {
        match self.next_message()? {
            Message::Bytes(arrived) => {
                self.received_bytes += arrived.bytes.len() as u64;
                Ok(Some(arrived))
            }
            Message::End => Ok(None),
            Message::Status(_) => Err(self.cut_off("a second status came")),
            failed => Err(self.failure(failed, false)),
        }
    }

    fn next_message(&mut self) -> Result<Message, HttpError> {
        loop {
            if self.interruption.is_interrupted() {
                return Err(HttpError::Interrupted { asked: self.asked.clone() });
            }
            match self.incoming.recv_timeout(INTERRUPTION_POLL) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.cut_off("its reader ended")),
            }
        }
    }

    fn failure(&self, message: Message, before_status: bool) -> HttpError {
        let error = match message {
            Message::Failed(error) => error,
            Message::FileFailed(path, source) => return HttpError::Upload { path, source },
            _ => return self.cut_off("it came in the wrong order"),
        };
        let not_reached = |reason| HttpError::NotReached { asked: self.asked.clone(), engine: self.engine, reason };
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => not_reached("no connection in time".into()),
            ureq::Error::Timeout(_) => HttpError::Silent {
                asked: self.asked.clone(),
                received_bytes: self.received_bytes,
                waited_s: self.longest_wait.as_secs(),
            },
            ureq::Error::Io(error) if before_status && !is_end_of_connection(&error) => not_reached(error.to_string()),
            ureq::Error::HostNotFound => not_reached("no such host".into()),
            error @ (ureq::Error::ConnectionFailed
            | ureq::Error::Tls(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::ConnectProxyFailed(_)
            | ureq::Error::InvalidProxyUrl) => not_reached(error.to_string()),
            ureq::Error::Io(error) => self.cut_off(end_in_words(&error)),
            error => self.cut_off(error.to_string()),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Ends the reading thread wherever it is, and tells the server that nobody listens.
        self.agent.clone().shutdown();
    }
}

fn is_end_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

fn end_in_words(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        "the server closed the connection before the end".to_owned()
    } else {
        error.to_string()
    }
}

/// The whole conversation. What it gives back, well or not, is the last message.
fn converse(agent: &Agent, ask: Ask, outgoing: &SyncSender<Message>) -> Result<Message, Message> {
    let response = send(agent, ask)?;
    let status = response.status().as_u16();
    let mut body = response.into_body().into_reader();
    if outgoing.send(Message::Status(status)).is_err() {
        return Ok(Message::End);
    }
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = body.read(&mut buffer).map_err(|error| Message::Failed(error.into()))?;
        let arrived_ns = monotonic_ns();
        if count == 0 {
            return Ok(Message::End);
        }
        let arrived = ArrivedBytes { arrived_ns, bytes: buffer[..count].to_vec() };
        if outgoing.send(Message::Bytes(arrived)).is_err() {
            return Ok(Message::End);
        }
    }
}

fn send(agent: &Agent, ask: Ask) -> Result<ureq::http::Response<ureq::Body>, Message> {
    let mut request = Request::builder().method(ask.method).uri(ask.url);
    if let Some(authorization) = ask.authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let answer = match ask.payload {
        Payload::Nothing => agent.run(built(request, ())?),
        Payload::Json(body) => agent.run(built(request.header(header::CONTENT_TYPE, "application/json"), body)?),
        Payload::File(path) => {
            let file = File::open(&path).map_err(|error| Message::FileFailed(path, error))?;
            agent.run(built(request.header(header::CONTENT_TYPE, "application/octet-stream"), file)?)
        }
    };
    answer.map_err(Message::Failed)
}

fn built<B>(request: ureq::http::request::Builder, body: B) -> Result<Request<B>, Message> {
    request.body(body).map_err(|error| Message::Failed(error.into()))
}
