use std::io;
use std::path::PathBuf;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dwell_build::BuildError;
use dwell_events::Hint;
use dwell_loopback::LoopbackError;
use dwell_metrics::MetricsError;
use dwell_report::ReportError;
use dwell_store::StoreError;
use serde::Serialize;

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// It cannot be opened.
    #[error("opening the folder to view failed with {source}: {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The server cannot listen.
    #[error(transparent)]
    Listen(#[from] LoopbackError),
}

impl Hint for ViewError {
    fn hints(&self) -> Vec<String> {
        match self {
            ViewError::Folder { .. } => {
                vec!["name a results directory or a run: dwell view results".to_owned()]
            }
            ViewError::Listen(error) => error.hints(),
        }
    }
}

/// Why a request is not answered with what it asks for.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct ApiError {
    status: StatusCode,
    error: String,
    hints: Vec<String>,
}

#[derive(Serialize)]
struct ErrorBody {
    error: String,
    hints: Vec<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), hints: Vec::new() }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The run is there and cannot be shown.
    pub(crate) fn unreadable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn of<E: std::error::Error + Hint>(error: &E) -> Self {
        Self { hints: error.hints(), ..Self::unreadable(error.to_string()) }
    }
}

impl ApiError {
    /// For a person who opened an address in a browser.
    pub(crate) fn into_text(self) -> Response {
        let lines = [self.error].into_iter().chain(self.hints);
        (self.status, lines.map(|line| format!("{line}\n")).collect::<String>()).into_response()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorBody { error: self.error, hints: self.hints })).into_response()
    }
}

/// What the stages say of a run is said to the client.
macro_rules! from_stage {
    ($($error:ty),*) => {
        $(impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Self::of(&error)
            }
        })*
    };
}

from_stage!(BuildError, MetricsError, ReportError);

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let asked = Self::of(&error);
        match error {
            // A window of time was asked for, and the table has no times.
            StoreError::MissingColumn { .. } => Self { status: StatusCode::BAD_REQUEST, ..asked },
            _ => asked,
        }
    }
}
