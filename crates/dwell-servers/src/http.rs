//! Asking servers over HTTP: small questions, and answers that come piece by piece.

mod address;
mod error;
mod exchange;
mod stream;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dwell_events::engine::EngineKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{HeaderValue, Method};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Proxy};

use address::Address;
use exchange::{Ask, Exchange, Payload};

pub use error::HttpError;
pub(crate) use error::{first_characters, message_of, said_in};
pub use stream::{DecodeError, Decoder};
pub(crate) use stream::{EventStream, LineStream};

/// A flag that ends waiting. All clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Ends what waits now and what would wait later.
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was set.
    pub fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How long is waited and how much is taken.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Until a connection is made.
    pub connect: Duration,
    /// Until the whole of a small answer is there.
    pub answer: Duration,
    /// Between two pieces of an answer that takes as long as a computation, and between two tokens, whatever else comes; a
    /// long prompt is silent for long.
    pub silence: Duration,
    /// Most bytes of a line or an event.
    pub line_bytes: usize,
    /// Most bytes of a whole answer that is not streamed.
    pub body_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(1800),
            line_bytes: 4 << 20,
            body_bytes: 64 << 20,
        }
    }
}

/// An answer of any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Status code.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// One server, to be asked.
#[derive(Clone)]
pub struct HttpClient {
    engine: EngineKind,
    address: Address,
    authorization: Option<HeaderValue>,
    limits: HttpLimits,
    interruption: Interruption,
}

impl HttpClient {
    /// A server at an address; the key of the API, if it needs one, is in an environment variable.
    pub fn new(
        engine: EngineKind,
        url: &str,
        key_variable: Option<&str>,
        interruption: Interruption,
    ) -> Result<Self, HttpError> {
        let address = Address::parse(url)?;
        if address.is_https {
            // An error means that one is installed already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let authorization = key_variable.map(bearer_from).transpose()?;
        Ok(Self { engine, address, authorization, limits: HttpLimits::default(), interruption })
    }

    /// The same with other limits.
    pub fn with_limits(self, limits: HttpLimits) -> Self {
        Self { limits, ..self }
    }

    /// The address, without `/v1` and without a slash at the end.
    pub fn url(&self) -> &str {
        &self.address.url
    }

    /// The flag that ends waiting.
    pub fn interruption(&self) -> &Interruption {
        &self.interruption
    }

    /// A small question, answered with JSON.
    pub fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, HttpError> {
        let exchange = self.ask(Method::GET, path, Payload::Nothing, Wait::Answer)?;
        self.json_of(exchange)
    }

    /// A small question, answered with text.
    pub fn get_text(&self, path: &str) -> Result<String, HttpError> {
        let exchange = self.ask(Method::GET, path, Payload::Nothing, Wait::Answer)?;
        let asked = exchange.asked().to_owned();
        let body = self.accepted(exchange)?;
        String::from_utf8(body).map_err(|error| HttpError::Malformed {
            asked,
            part: "the body".to_owned(),
            reason: "bytes that are no UTF-8".to_owned(),
            found: first_characters(&String::from_utf8_lossy(error.as_bytes())),
        })
    }

    /// A small question whose status matters, whatever it is.
    pub(crate) fn get_any(&self, path: &str) -> Result<Answer, HttpError> {
        let mut exchange = self.ask(Method::GET, path, Payload::Nothing, Wait::Answer)?;
        let status = exchange.status()?;
        Ok(Answer { status, body: self.body_of(&mut exchange)? })
    }

    /// Whether something is there.
    pub(crate) fn has(&self, path: &str) -> Result<bool, HttpError> {
        match self.ask(Method::HEAD, path, Payload::Nothing, Wait::Answer)?.status()? {
            200..300 => Ok(true),
            404 => Ok(false),
            status => Err(HttpError::Status {
                asked: format!("HEAD {}{path}", self.url()),
                status,
                said: "nothing".to_owned(),
            }),
        }
    }

    /// A question with a JSON body that is answered at once.
    pub fn post_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, HttpError> {
        let exchange = self.ask(Method::POST, path, self.json_payload(path, body)?, Wait::Answer)?;
        self.json_of(exchange)
    }

    /// A question with a JSON body whose answer takes as long as a computation.
    pub fn post_slow_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, HttpError> {
        let exchange = self.ask(Method::POST, path, self.json_payload(path, body)?, Wait::Pieces)?;
        self.json_of(exchange)
    }

    /// Sends a file; the answer has no content that matters.
    pub(crate) fn post_file(&self, path: &str, file: &Path) -> Result<(), HttpError> {
        let exchange = self.ask(Method::POST, path, Payload::File(file.to_path_buf()), Wait::Pieces)?;
        self.accepted(exchange).map(drop)
    }

    /// A question that is answered with server-sent events.
    pub(crate) fn post_events(&self, path: &str, body: &impl Serialize) -> Result<EventStream, HttpError> {
        let mut exchange = self.ask(Method::POST, path, self.json_payload(path, body)?, Wait::Pieces)?;
        self.check_status(&mut exchange)?;
        Ok(EventStream::events(exchange, &self.limits))
    }

    /// A question that is answered with lines of JSON.
    pub(crate) fn post_lines(&self, path: &str, body: &impl Serialize) -> Result<LineStream, HttpError> {
        let mut exchange = self.ask(Method::POST, path, self.json_payload(path, body)?, Wait::Pieces)?;
        self.check_status(&mut exchange)?;
        Ok(LineStream::lines(exchange, &self.limits))
    }

    fn json_payload(&self, path: &str, body: &impl Serialize) -> Result<Payload, HttpError> {
        let json = serde_json::to_vec(body).map_err(|error| HttpError::NotReached {
            asked: format!("POST {}{path}", self.url()),
            engine: self.engine,
            reason: format!("the question is no JSON ({error})"),
        })?;
        Ok(Payload::Json(json))
    }

    fn ask(&self, method: Method, path: &str, payload: Payload, wait: Wait) -> Result<Exchange, HttpError> {
        let ask = Ask {
            method,
            url: format!("{}{path}", self.url()),
            payload,
            authorization: self.authorization.clone(),
            engine: self.engine,
            longest_wait: self.longest_wait(wait),
        };
        Exchange::start(self.agent(wait), ask, self.interruption.clone())
    }

    fn longest_wait(&self, wait: Wait) -> Duration {
        match wait {
            Wait::Answer => self.limits.answer,
            Wait::Pieces => self.limits.silence,
        }
    }

    fn agent(&self, wait: Wait) -> Agent {
        let longest_wait = self.longest_wait(wait);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("dwell/", env!("CARGO_PKG_VERSION")))
            .proxy(if self.address.is_loopback { None } else { Proxy::try_from_env() })
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .timeout_connect(Some(self.limits.connect))
            .timeout_per_read(Some(longest_wait))
            .timeout_global(matches!(wait, Wait::Answer).then_some(longest_wait));
        Agent::new_with_config(config.build())
    }

    fn check_status(&self, exchange: &mut Exchange) -> Result<(), HttpError> {
        let status = exchange.status()?;
        if (200..300).contains(&status) {
            return Ok(());
        }
        // What came of the body explains the refusal, whole or not.
        let said = self.body_of(exchange).map_or_else(|error| error.to_string(), |body| said_in(&body));
        Err(HttpError::Status { asked: exchange.asked().to_owned(), status, said })
    }

    fn accepted(&self, mut exchange: Exchange) -> Result<Vec<u8>, HttpError> {
        self.check_status(&mut exchange)?;
        self.body_of(&mut exchange)
    }

    fn json_of<T: DeserializeOwned>(&self, exchange: Exchange) -> Result<T, HttpError> {
        let asked = exchange.asked().to_owned();
        let body = self.accepted(exchange)?;
        serde_json::from_slice(&body).map_err(|error| HttpError::Malformed {
            asked,
            part: "the body".to_owned(),
            reason: format!("invalid JSON ({error})"),
            found: first_characters(&String::from_utf8_lossy(&body)),
        })
    }

    fn body_of(&self, exchange: &mut Exchange) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(arrived) = exchange.next_bytes()? {
            body.extend_from_slice(&arrived.bytes);
            if body.len() > self.limits.body_bytes {
                return Err(HttpError::TooLarge {
                    asked: exchange.asked().to_owned(),
                    part: "the body".to_owned(),
                    limit_bytes: self.limits.body_bytes as u64,
                });
            }
        }
        Ok(body)
    }
}

/// Which limit an answer has.
#[derive(Clone, Copy)]
enum Wait {
    /// The whole answer at once.
    Answer,
    /// Each piece of it.
    Pieces,
}

fn bearer_from(variable: &str) -> Result<HeaderValue, HttpError> {
    let bad = |reason| HttpError::NoKey { variable: variable.to_owned(), reason };
    let key = env::var(variable).map_err(|error| match error {
        env::VarError::NotPresent => bad("nothing"),
        env::VarError::NotUnicode(_) => bad("no text"),
    })?;
    if key.trim().is_empty() {
        return Err(bad("nothing"));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
        .map_err(|_| bad("characters that a header cannot have"))?;
    // Keeps it out of every debug output of the HTTP library.
    value.set_sensitive(true);
    Ok(value)
}
