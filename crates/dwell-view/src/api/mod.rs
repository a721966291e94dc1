//! What can be asked for. One file per subject; `docs/formats/view-api.md` describes them.

mod page;
mod results;
mod rows;
mod tables;
mod window;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use serde::Serialize;

use crate::desk::Desk;
use crate::error::ApiError;
use crate::live::{LiveRuns, ReadableRun};
use crate::page_cache::PageCache;
use crate::tree::Tree;
use crate::viewer::ViewerPage;

/// Version of the API.
pub(crate) const FORMAT: u32 = 1;

/// What every request can use.
pub(crate) struct App {
    tree: Tree,
    desk: Desk,
    live: LiveRuns,
    pages: PageCache,
    viewer: ViewerPage,
}

impl App {
    pub(crate) fn new(tree: Tree) -> Self {
        let viewer = ViewerPage::new(&tree.name());
        Self { tree, desk: Desk::new(), live: LiveRuns::default(), pages: PageCache::default(), viewer }
    }

    /// A run by its name, finished or not.
    fn run(&self, name: &str) -> Result<ReadableRun, ApiError> {
        self.live.readable(self.tree.run(name)?)
    }

    /// Answers with JSON that is made when it is the request's turn.
    async fn answer<T: Serialize>(
        self: Arc<Self>,
        make: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let app = self.clone();
        let json = self.desk.work(move || json(&make(&app)?)).await?;
        Ok(([(CONTENT_TYPE, "application/json")], self.desk.send(json).await?).into_response())
    }
}

fn json<T: Serialize>(value: &T) -> Result<Bytes, ApiError> {
    let json =
        serde_json::to_vec(value).map_err(|error| ApiError::unreadable(format!("writing JSON failed: {error}")))?;
    Ok(json.into())
}

/// Every address, without the guard.
pub(crate) fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/results", get(results::get))
        .route("/page", get(page::get))
        .route("/window", get(window::get))
        .route("/rows", get(rows::get))
        .route("/tables", get(tables::get));
    Router::new()
        .route("/", get(viewer))
        .nest("/api/v1", api)
        .fallback(async || {
            ApiError::not_found("nothing has this address")
                .hint("the API is at /api/v1/results, page, window, rows and tables")
        })
        .with_state(app)
}

async fn viewer(State(app): State<Arc<App>>) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, app.viewer.policy.clone())];
    (headers, app.viewer.html.clone()).into_response()
}
