//! Servers that go on after the tokens they were asked for.

use std::ops::ControlFlow;

use dwell_events::server::RequestTimings;

use crate::ServerError;
use crate::client::{Asked, Piece, Runtime};

/// Tokens that may come beyond those that were asked for before the request is ended from this side, besides a quarter of them:
/// servers count the last token of an answer in their own ways, and some send a token in several pieces.
const GRACE_TOKENS: u32 = 32;

/// Text of an answer that may come, whatever was asked for, and for each token besides. Tokens of models have some letters; no
/// vocabulary has one of more than a few hundred bytes.
const GRACE_TEXT_BYTES: usize = 1 << 20;
const TOKEN_TEXT_BYTES: usize = 1024;

/// What may still come of an answer.
struct Room {
    tokens: usize,
    text_bytes: usize,
}

impl Room {
    fn of(max_tokens: u32) -> Self {
        let tokens = max_tokens.saturating_add(max_tokens / 4).saturating_add(GRACE_TOKENS) as usize;
        Self { tokens, text_bytes: tokens.saturating_mul(TOKEN_TEXT_BYTES).saturating_add(GRACE_TEXT_BYTES) }
    }

    /// Takes a piece as far as there is room for it. `false` if it was the last for which there is any.
    fn take(&mut self, piece: &mut Piece) -> bool {
        piece.token_ids.truncate(self.tokens);
        if piece.text.len() > self.text_bytes {
            let end = (0..=self.text_bytes).rev().find(|&end| piece.text.is_char_boundary(end));
            piece.text.truncate(end.unwrap_or_default());
        }
        self.tokens = self.tokens.saturating_sub(piece.token_ids.len().max(1));
        self.text_bytes -= piece.text.len();
        self.tokens > 0 && self.text_bytes > 0
    }
}

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
    let mut room = Room::of(asked.max_tokens);
    let mut is_limit_ignored = false;
    let timings = runtime.generate(asked, &mut |mut piece| {
        is_limit_ignored = !room.take(&mut piece);
        on_piece(piece)?;
        if is_limit_ignored { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(Limited { timings, is_limit_ignored })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(room: &mut Room, text: &str, ids: usize) -> (usize, usize, bool) {
        let mut piece = Piece { text: text.to_owned(), token_ids: vec![7; ids], ..Piece::default() };
        let has_room = room.take(&mut piece);
        (piece.text.len(), piece.token_ids.len(), has_room)
    }

    #[test]
    fn a_piece_is_taken_as_far_as_there_is_room_for_tokens() {
        let mut room = Room::of(8);
        assert_eq!(taken(&mut room, "a", 1), (1, 1, true));
        assert_eq!(taken(&mut room, "a", 0), (1, 0, true));
        assert_eq!(taken(&mut room, "a", 1_000_000), (1, 40, false));
    }

    #[test]
    fn text_is_cut_between_letters() {
        let mut room = Room { tokens: 9, text_bytes: 4 };
        assert_eq!(taken(&mut room, "ab", 1), (2, 1, true));
        assert_eq!(taken(&mut room, "€€", 1), (0, 1, true));
        assert_eq!(taken(&mut room, "cd", 1), (2, 1, false));
        assert!(Room::of(u32::MAX).text_bytes > 1 << 40, "a long answer has room");
    }
}
