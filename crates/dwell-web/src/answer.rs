//! Who is answered, and with what.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE, LOCATION, RANGE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dwell_files::open_ordinary;
use dwell_loopback::{Refusal, Site, Token, add_protective_headers};
use percent_encoding::percent_decode_str;
use tokio::task::spawn_blocking;

use crate::file_body::FileBody;
use crate::media_type::media_type;
use crate::range::{Wanted, wanted};
use crate::shelf::{Content, Shelf};

/// Scripts come from this server; what a person asks the page to load may come from anywhere that allows it. Runtimes compile
/// WebAssembly and start workers from texts of their own, and the glue of some evaluates text.
const POLICY: &str = "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval' 'unsafe-eval'; worker-src 'self' blob:; \
                      style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; connect-src 'self' blob: data: https: http:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the server knows.
pub(crate) struct App {
    pub(crate) site: Site,
    pub(crate) token: Token,
    pub(crate) shelf: Shelf,
}

/// Answers a request; every answer has the headers of an isolated page.
pub(crate) async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let mut response = match app.site.check(&request) {
        Ok(()) => app.find(&request.into_parts().0).await.unwrap_or_else(not_found),
        Err(refusal) => refused(refusal),
    };
    let headers = response.headers_mut();
    add_protective_headers(headers);
    headers.insert("cross-origin-embedder-policy", HeaderValue::from_static("require-corp"));
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    response
}

fn refused(refusal: Refusal) -> Response {
    (refusal.status, format!("{refusal}\n")).into_response()
}

/// The same whether the token is wrong or the address: who does not know the token learns nothing.
fn not_found() -> Response {
    let text = "nothing has this address\nopen the address that dwell printed: every start has a new one\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

impl App {
    async fn find(&self, request: &Parts) -> Option<Response> {
        let (token, address) = match request.uri.path().strip_prefix('/')?.split_once('/') {
            Some((token, address)) => (token, Some(address)),
            None => (request.uri.path().strip_prefix('/')?, None),
        };
        if !self.token.is(token) {
            return None;
        }
        // Relative addresses of the page need the slash.
        let Some(address) = address else {
            return Some((StatusCode::PERMANENT_REDIRECT, [(LOCATION, format!("/{token}/"))]).into_response());
        };
        let address = percent_decode_str(address).decode_utf8().ok()?;
        let (name, content) = self.shelf.get(&address)?;
        let media_type = media_type(name);
        match content {
            Content::Bytes(bytes) => Some(of_bytes(bytes.clone(), media_type)),
            Content::File(path) => of_file(path, media_type, request).await,
        }
    }
}

fn of_bytes(bytes: Bytes, media_type: &'static str) -> Response {
    ([(CONTENT_TYPE, media_type)], bytes).into_response()
}

async fn of_file(path: &Path, media_type: &'static str, request: &Parts) -> Option<Response> {
    let (file, file_bytes) = opened(path).await?;
    let part = wanted_part(&request.headers, file_bytes);
    let (status, part) = match part {
        Wanted::All => (StatusCode::OK, 0..file_bytes),
        Wanted::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Wanted::Outside => {
            let range = [(CONTENT_RANGE, format!("bytes */{file_bytes}"))];
            return Some((StatusCode::RANGE_NOT_SATISFIABLE, range).into_response());
        }
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{file_bytes}", part.start, part.end - 1);
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(range).ok()?);
    }
    let is_head = request.method == Method::HEAD;
    let body = if is_head { Body::empty() } else { Body::new(FileBody::new(file, part)) };
    Some((status, headers, body).into_response())
}

async fn opened(path: &Path) -> Option<(File, u64)> {
    let path = path.to_owned();
    let open = move || {
        let file = open_ordinary(&path).ok()?;
        let file_bytes = file.metadata().ok()?.len();
        Some((file, file_bytes))
    };
    spawn_blocking(open).await.ok()?
}

fn wanted_part(headers: &HeaderMap, file_bytes: u64) -> Wanted {
    // Answers have no validator, so that none can match.
    let is_conditional = headers.contains_key(IF_RANGE);
    let range = headers.get(RANGE).filter(|_| !is_conditional).and_then(|value| value.to_str().ok());
    wanted(range, file_bytes)
}
