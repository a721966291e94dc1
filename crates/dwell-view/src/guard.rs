//! Who is answered: a client on this machine that knows the token and was not sent by another site.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dwell_loopback::{LoopbackError, Site, Token, add_protective_headers};

use crate::error::ApiError;
use crate::params::Params;

/// Parameter of the first request.
const TOKEN: &str = "token";

/// Knows the token and the names under which this server is asked.
pub(crate) struct Guard {
    token: Token,
    site: Site,
}

impl Guard {
    pub(crate) fn new(port: u16) -> Result<Self, LoopbackError> {
        Ok(Self { token: Token::new()?, site: Site::new(port) })
    }

    /// Where the viewer begins.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?{TOKEN}={}", self.site.port(), self.token.as_str())
    }

    /// The name of the cookie: servers on other ports of the same machine see it too, and have their own.
    fn cookie(&self) -> String {
        format!("dwell-{}", self.site.port())
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        self.site.check(request).map_err(|refusal| ApiError::new(refusal.status, refusal.to_string()))?;
        let is_known = self.has_token(request.headers()) || self.asks_with_token(request);
        if is_known { Ok(()) } else { Err(unknown_client()) }
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
        bearer.chain(cookies).any(|given| self.token.is(&given))
    }

    /// Whether it is the first request of a browser.
    fn asks_with_token(&self, request: &Request) -> bool {
        let given = Params::of(request.uri().query(), &[TOKEN]);
        let given = given.ok().and_then(|params| params.required(TOKEN).map(str::to_owned).ok());
        request.uri().path() == "/" && given.is_some_and(|given| self.token.is(&given))
    }

    /// The browser keeps the token as a cookie that scripts cannot read, and the address bar loses it.
    fn welcome(&self) -> Response {
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie(), self.token.as_str());
        (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response()
    }
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
    add_protective_headers(response.headers_mut());
    response
}
