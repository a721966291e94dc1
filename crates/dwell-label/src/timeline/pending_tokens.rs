//! Which token of which sequence each row of a graph computes.
//!
//! The engine says what it is about to compute ([`dwell_events::engine::EngineEvent::BatchBegins`]); llama.cpp cuts
//! that into graphs and may reorder it. A graph shows the ids and positions of its tokens, so each is looked up among
//! the tokens of the batch that no earlier graph has taken.

use std::collections::VecDeque;

use dwell_events::engine::BatchToken;

use super::Place;

/// The tokens of the current batch that no graph has computed yet.
#[derive(Default)]
pub(super) struct PendingTokens {
    tokens: VecDeque<BatchToken>,
}

impl PendingTokens {
    /// A new batch begins; what was left of the one before was never computed.
    pub(super) fn begin(&mut self, tokens: Vec<BatchToken>) {
        self.tokens = tokens.into();
    }

    /// Takes the tokens of a graph and says where each belongs.
    ///
    /// Without ids (another kind of input) tokens are taken by position alone; without a batch (a program that does not
    /// report one) only the position is known.
    pub(super) fn take(&mut self, ids: Option<&[i64]>, positions: Option<&[i64]>, count: usize) -> Vec<Place> {
        (0..count)
            .map(|row| {
                let id = ids.and_then(|ids| ids.get(row));
                let position = positions.and_then(|positions| positions.get(row));
                self.take_one(id.copied(), position.copied())
            })
            .collect()
    }

    fn take_one(&mut self, id: Option<i64>, position: Option<i64>) -> Place {
        let fits = |token: &BatchToken| {
            id.is_none_or(|id| i64::from(token.id) == id)
                && position.is_none_or(|position| i64::from(token.position) == position)
        };
        match self.tokens.iter().position(fits).and_then(|at| self.tokens.remove(at)) {
            Some(token) => Place { position: Some(token.position), sequence: Some(token.sequence), lane: None },
            None => {
                let position = position.and_then(|position| i32::try_from(position).ok());
                Place { position, sequence: None, lane: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordered_tokens_find_their_sequences() {
        let token = |id, position, sequence| BatchToken { id, position, sequence };
        let mut pending = PendingTokens::default();
        pending.begin(vec![token(7, 0, 0), token(7, 0, 1), token(8, 1, 0), token(8, 1, 1)]);
        let first = pending.take(Some(&[7, 8]), Some(&[0, 1]), 2);
        let second = pending.take(Some(&[7, 8]), Some(&[0, 1]), 2);
        let place = |position, sequence| Place { position: Some(position), sequence: Some(sequence), lane: None };
        assert_eq!(first, [place(0, 0), place(1, 0)]);
        assert_eq!(second, [place(0, 1), place(1, 1)]);
    }

    #[test]
    fn without_a_batch_only_the_position_is_known() {
        let places = PendingTokens::default().take(Some(&[7]), Some(&[3]), 1);
        assert_eq!(places, [Place { position: Some(3), sequence: None, lane: None }]);
    }
}
