//! Work for requests: a few at a time, with bounded memory for what waits to be sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::error::ApiError;

/// Requests that are worked on at once. Reading a table keeps a core busy, and the machine may be recording.
const WORKERS: usize = 2;

/// Requests that may wait for that.
const MOST_WAITING: usize = 256;

/// Memory of all answers that are being sent.
const ANSWERS_KIB: usize = 96 * 1024;

/// Answers are sent in pieces, so that a client which stops reading is known to hold the rest.
const PIECE_BYTES: usize = 64 * 1024;

/// How long an answer may wait for memory that slow clients hold.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Where requests wait their turn.
pub(crate) struct Desk {
    workers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { workers: semaphore(WORKERS), waiting: semaphore(MOST_WAITING), answers: semaphore(ANSWERS_KIB) }
    }

    /// Does work that reads files, when it is its turn.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let _place = self.waiting.clone().try_acquire_owned().map_err(|_| busy("too many requests are waiting"))?;
        let turn = self.workers.clone().acquire_owned().await.map_err(|_| busy("the server is ending"))?;
        let done = spawn_blocking(move || {
            // The work goes on even if the client leaves; its turn ends with it.
            let _turn = turn;
            work()
        });
        done.await.unwrap_or_else(|_| {
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be worked on"))
        })
    }

    /// Sends bytes, as soon as there is room for them among the answers that are being sent.
    pub(crate) async fn send(&self, bytes: Bytes) -> Result<axum::body::Body, ApiError> {
        let needed_kib = bytes.len().div_ceil(1024);
        if needed_kib > ANSWERS_KIB {
            return Err(ApiError::unreadable(format!(
                "the answer has {} bytes, and at most {} are sent",
                bytes.len(),
                ANSWERS_KIB * 1024
            ))
            .hint("ask for less: fewer rows or columns, or a run at a time"));
        }
        let room = u32::try_from(needed_kib).unwrap_or(u32::MAX);
        let room = timeout(LONGEST_WAIT, self.answers.clone().acquire_many_owned(room)).await;
        let room = room.ok().and_then(Result::ok).ok_or_else(|| busy("other clients do not read their answers"))?;
        Ok(axum::body::Body::new(Pieces { rest: bytes, _room: room }))
    }
}

fn busy(reason: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, reason).hint("ask again in a moment")
}

/// Bytes, piece by piece. The room is given back when the last one has been taken.
struct Pieces {
    rest: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready((piece > 0).then(|| Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_longer_than_all_may_be_is_not_sent() {
        let desk = Desk::new();
        let most = Bytes::from(vec![0; ANSWERS_KIB * 1024]);
        assert!(desk.send(most).await.is_ok());
        let more = Bytes::from(vec![0; ANSWERS_KIB * 1024 + 1]);
        assert!(desk.send(more).await.is_err());
    }
}
