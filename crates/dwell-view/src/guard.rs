//! Who is answered: a client on this machine that knows the token and was not sent by another site.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

use crate::error::{ApiError, ViewError};
use crate::params::Params;

/// Bytes of an address that is answered at most.
const LONGEST_TARGET_BYTES: usize = 16 * 1024;

/// Parameter of the first request.
const TOKEN: &str = "token";

/// Knows the token and the names under which this server is asked.
pub(crate) struct Guard {
    token: String,
    port: u16,
}

impl Guard {
    pub(crate) fn new(port: u16) -> Result<Self, ViewError> {
        let mut random = [0_u8; 16];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|error| ViewError::Start { source: error.into() })?;
        Ok(Self { token: random.iter().map(|byte| format!("{byte:02x}")).collect(), port })
    }

    /// Where the viewer begins.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?{TOKEN}={}", self.port, self.token)
    }

    fn hosts(&self) -> [String; 2] {
        ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port))
    }

    /// The name of the cookie: servers on other ports of the same machine see it too, and have their own.
    fn cookie(&self) -> String {
        format!("dwell-{}", self.port)
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this server only reads: GET is the only method",
            ));
        }
        if request.uri().to_string().len() > LONGEST_TARGET_BYTES {
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "the address of the request is too long"));
        }
        if has_body(headers) {
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "the request has a body, and none is taken"));
        }
        if request.uri().authority().is_some_and(|asked| !self.hosts().iter().any(|host| asked == host.as_str())) {
            return Err(foreign("it asks for another server"));
        }
        self.check_site(headers)?;
        let is_known = self.has_token(headers) || self.asks_with_token(request);
        if is_known { Ok(()) } else { Err(unknown_client()) }
    }

    /// A page of another site may make a browser send requests here, under a name of its own or with its origin.
    fn check_site(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let hosts = self.hosts();
        let origins = self.hosts().map(|host| format!("http://{host}"));
        // A client that says two things means neither.
        let only = |name: HeaderName, known: &[String]| {
            let mut given = headers.get_all(name).iter();
            let first = given.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
            given.next().is_none() && known.iter().any(|known| known == first)
        };
        if !only(HOST, &hosts) {
            return Err(foreign("its Host is not the address of this server"));
        }
        if headers.contains_key(ORIGIN) && !only(ORIGIN, &origins) {
            return Err(foreign("its Origin is another site"));
        }
        Ok(())
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let texts = |name: HeaderName| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let scheme = |value: &'_ str| {
            value
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
                .map(|(_, token)| token.to_owned())
        };
        let bearer = texts(AUTHORIZATION).filter_map(scheme);
        let cookie = format!("{}=", self.cookie());
        let cookies = texts(COOKIE)
            .flat_map(|value| value.split(';'))
            .filter_map(|each| each.trim().strip_prefix(&cookie).map(str::to_owned));
        bearer.chain(cookies).any(|given| self.is_token(&given))
    }

    /// Whether it is the first request of a browser.
    fn asks_with_token(&self, request: &Request) -> bool {
        let given = Params::of(request.uri().query(), &[TOKEN]);
        let given = given.ok().and_then(|params| params.required(TOKEN).map(str::to_owned).ok());
        request.uri().path() == "/" && given.is_some_and(|given| self.is_token(&given))
    }

    /// Compares hashes, so that the time it takes says nothing of the token.
    fn is_token(&self, given: &str) -> bool {
        Sha256::digest(given) == Sha256::digest(&self.token)
    }

    /// The browser keeps the token as a cookie that scripts cannot read, and the address bar loses it.
    fn welcome(&self) -> Response {
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie(), self.token);
        (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response()
    }
}

fn foreign(what: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, format!("the request comes from elsewhere: {what}"))
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

fn unknown_client() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
        .hint("open the address that `dwell view` printed when it was started: every start has a new token")
        .hint("other clients send it as `Authorization: Bearer TOKEN`")
}

/// Answers those who may ask.
pub(crate) async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(&request) {
        Err(refusal) if request.uri().path() == "/" => refusal.into_text(),
        Err(refusal) => refusal.into_response(),
        Ok(()) if guard.asks_with_token(&request) => guard.welcome(),
        Ok(()) => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
