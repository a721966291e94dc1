//! Whether a request comes from a client of this server, and not from a page of another site.

use axum::http::header::{CONTENT_LENGTH, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};

/// Bytes of an address that is answered at most.
const LONGEST_TARGET_BYTES: usize = 16 * 1024;

/// Headers of every answer: what another site must not do with it.
const PROTECTIVE: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Knows the names under which this server is asked.
pub struct Site {
    port: u16,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The status to answer with.
    pub status: StatusCode,
    reason: &'static str,
}

const FOREIGN_SERVER: Refusal = foreign("the request comes from elsewhere: it asks for another server");
const FOREIGN_HOST: Refusal = foreign("the request comes from elsewhere: its Host is not the address of this server");
const FOREIGN_ORIGIN: Refusal = foreign("the request comes from elsewhere: its Origin is another site");
const OTHER_METHOD: Refusal =
    Refusal { status: StatusCode::METHOD_NOT_ALLOWED, reason: "this server only reads: GET is the only method" };
const LONG_TARGET: Refusal =
    Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "the address of the request is too long" };
const WITH_BODY: Refusal =
    Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "the request has a body, and none is taken" };

const fn foreign(reason: &'static str) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, reason }
}

impl Site {
    /// The site of a server on this port.
    pub fn new(port: u16) -> Self {
        Self { port }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Refuses what does not only read, is longer than it must be, or was sent by another site.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(OTHER_METHOD);
        }
        if request.uri().to_string().len() > LONGEST_TARGET_BYTES {
            return Err(LONG_TARGET);
        }
        if has_body(headers) {
            return Err(WITH_BODY);
        }
        if request.uri().authority().is_some_and(|asked| !self.hosts().iter().any(|host| asked == host.as_str())) {
            return Err(FOREIGN_SERVER);
        }
        self.check_sender(headers)
    }

    /// A page of another site may make a browser send requests here, under a name of its own or with its origin.
    fn check_sender(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let hosts = self.hosts();
        let origins = self.hosts().map(|host| format!("http://{host}"));
        // A client that says two things means neither.
        let only = |name: HeaderName, known: &[String]| {
            let mut given = headers.get_all(name).iter();
            let first = given.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
            given.next().is_none() && known.iter().any(|known| known == first)
        };
        match () {
            () if !only(HOST, &hosts) => Err(FOREIGN_HOST),
            () if headers.contains_key(ORIGIN) && !only(ORIGIN, &origins) => Err(FOREIGN_ORIGIN),
            () => Ok(()),
        }
    }

    fn hosts(&self) -> [String; 2] {
        ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port))
    }
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

/// Adds the headers that keep an answer from other sites, from caches and from being taken for another type.
pub fn add_protective_headers(headers: &mut HeaderMap) {
    for (name, value) in PROTECTIVE {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn status(method: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
        let request = Request::builder().method(method).uri(target);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        match Site::new(8080).check(&request.body(()).unwrap()) {
            Ok(()) => 200,
            Err(refusal) => refusal.status.as_u16(),
        }
    }

    #[test]
    fn only_reads_under_an_own_name_from_an_own_page_are_answered() {
        let own = ("host", "127.0.0.1:8080");
        assert_eq!(status("GET", "/", &[own]), 200);
        assert_eq!(status("HEAD", "/", &[("host", "localhost:8080"), ("origin", "http://127.0.0.1:8080")]), 200);
        assert_eq!(status("POST", "/", &[own]), 405);
        assert_eq!(status("GET", &format!("/{}", "x".repeat(LONGEST_TARGET_BYTES)), &[own]), 413);
        assert_eq!(status("GET", "/", &[own, ("transfer-encoding", "chunked")]), 413);
        for headers in [
            &[][..],
            &[("host", "127.0.0.1")],
            &[("host", "127.0.0.1:8081")],
            &[("host", "rebound.example:8080")],
            &[own, own],
            &[own, ("origin", "null")],
            &[own, ("origin", "http://localhost:8081")],
            &[own, ("origin", "https://127.0.0.1:8080")],
        ] {
            assert_eq!(status("GET", "/", headers), 403, "{headers:?}");
        }
        assert_eq!(status("GET", "http://rebound.example/", &[own]), 403);
    }
}
