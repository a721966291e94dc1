//! Servers that go on after the tokens they were asked for.

use std::ops::ControlFlow;

use dwell_events::server::RequestTimings;

use crate::ServerError;
use crate::client::{Asked, Piece, Runtime};

/// Tokens that may come beyond those that were asked for before the request is ended from this side, besides a quarter of them:
/// servers count the last token of an answer in their own ways, and some send a token in several pieces.
const GRACE_TOKENS: u32 = 32;

/// What came of a request that was ended where its limit was passed.
pub(super) struct Limited {
    pub(super) timings: RequestTimings,
    /// Whether the server went on so long that the request was ended from this side.
    pub(super) is_limit_ignored: bool,
}

/// Asks for text as [`Runtime::generate`] does, and ends the request if the server goes on after its tokens.
pub(super) fn generate_limited(
    runtime: &mut dyn Runtime,
    asked: &Asked<'_>,
    mut on_piece: impl FnMut(Piece) -> ControlFlow<()>,
) -> Result<Limited, ServerError> {
    let most = asked.max_tokens.saturating_add(asked.max_tokens / 4).saturating_add(GRACE_TOKENS);
    let mut pieces = 0;
    let mut is_limit_ignored = false;
    let timings = runtime.generate(asked, &mut |piece| {
        on_piece(piece)?;
        pieces += 1;
        is_limit_ignored = pieces >= most;
        if is_limit_ignored { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(Limited { timings, is_limit_ignored })
}
