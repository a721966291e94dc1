//! The tokens of a run.

use std::collections::{HashMap, VecDeque};

use dwell_events::engine::BatchToken;
use dwell_events::schema::tokens::TokenRow;

use super::answers::Origin;

/// Tokens in order of appearance. Rows are handed out as soon as nothing can change them any more.
#[derive(Default)]
pub(super) struct TokenLog {
    /// Rows of the batch that is being computed.
    open: Vec<TokenRow>,
    batch: Option<Batch>,
    /// Rows of answers that are not complete, with the number of the answer, and those after them.
    held: VecDeque<(TokenRow, Option<usize>)>,
    /// Which token is at a position of a sequence.
    by_place: HashMap<(i32, i32), u32>,
    texts: HashMap<i32, String>,
    next_index: u32,
    decoded: u64,
}

/// A token as the engine tells of it.
pub(super) struct GeneratedToken {
    /// Step whose computation gave it.
    pub(super) step: u32,
    /// Sequence it belongs to.
    pub(super) sequence: i32,
    /// Position in that sequence, if the engine says it.
    pub(super) position: Option<i32>,
    /// Id, if the engine says it.
    pub(super) id: Option<i32>,
    /// Text.
    pub(super) text: String,
}

struct Batch {
    step: u32,
    begin_ns: u64,
}

impl TokenLog {
    /// A prompt was cut into these tokens.
    pub(super) fn prompt(&mut self, tokens: Vec<(i32, String)>) {
        self.texts.extend(tokens);
    }

    /// A batch is about to be computed. Tokens that the model did not produce appear here for the first time.
    pub(super) fn batch_begins(&mut self, step: u32, tokens: &[BatchToken], time_ns: u64, out: &mut Vec<TokenRow>) {
        out.append(&mut self.open);
        self.batch = Some(Batch { step, begin_ns: time_ns });
        for token in tokens {
            if self.by_place.contains_key(&(token.sequence, token.position)) {
                continue;
            }
            let text = self.texts.get(&token.id).cloned().unwrap_or_default();
            let (sequence, position, id) = (token.sequence, Some(token.position), Some(token.id));
            let row = self.numbered(GeneratedToken { step, sequence, position, id, text });
            self.open.push(TokenRow { begin_ns: time_ns, end_ns: time_ns, ..row });
        }
    }

    /// The batch was computed.
    pub(super) fn batch_ends(&mut self, time_ns: u64, kv_bytes: Option<u64>, out: &mut Vec<TokenRow>) {
        for row in &mut self.open {
            row.end_ns = time_ns;
            row.kv_bytes = kv_bytes;
        }
        out.append(&mut self.open);
    }

    /// The model produced a token. With an answer, it is found out later what gave it: see [`TokenLog::settle`].
    pub(super) fn generated(
        &mut self,
        token: GeneratedToken,
        time_ns: u64,
        kv_bytes: Option<u64>,
        answer: Option<usize>,
        out: &mut Vec<TokenRow>,
    ) {
        out.append(&mut self.open);
        let step = token.step;
        let begin_ns = self.batch.as_ref().filter(|batch| batch.step == step).map_or(time_ns, |batch| batch.begin_ns);
        let row = self.numbered(token);
        self.held.push_back((TokenRow { is_generated: true, begin_ns, end_ns: time_ns, kv_bytes, ..row }, answer));
        self.hand_out(out);
    }

    /// When the tokens of an answer arrived.
    pub(super) fn arrivals(&self, answer: usize) -> Vec<u64> {
        self.held.iter().filter(|(_, of)| *of == Some(answer)).map(|(row, _)| row.end_ns).collect()
    }

    /// An answer is complete, and this is where its tokens come from; nothing, if that was not found out.
    pub(super) fn settle(&mut self, answer: usize, origins: &[Origin], out: &mut Vec<TokenRow>) {
        let rows = self.held.iter_mut().filter(|(_, of)| *of == Some(answer));
        for (index, (row, of)) in rows.enumerate() {
            *of = None;
            let Some(origin) = origins.get(index) else { continue };
            (row.step, row.kv_bytes) = (origin.step, Some(origin.kv_bytes));
            row.begin_ns = origin.begin_ns.unwrap_or(row.end_ns).min(row.end_ns);
        }
        self.hand_out(out);
    }

    fn hand_out(&mut self, out: &mut Vec<TokenRow>) {
        while self.held.front().is_some_and(|(_, answer)| answer.is_none())
            && let Some((row, _)) = self.held.pop_front()
        {
            self.decoded += u64::from(row.step > 0);
            out.push(row);
        }
    }

    /// Positions `[from, to)` of a sequence were removed; `sequence` < 0 stands for all, `to` < 0 for no end.
    pub(super) fn removed(&mut self, sequence: i32, from: i32, to: i32) {
        self.by_place.retain(|&place, _| !is_within(place, sequence, from, to));
    }

    /// Positions `[from, to)` of a sequence moved by `delta`.
    pub(super) fn shifted(&mut self, sequence: i32, from: i32, to: i32, delta: i32) {
        let moved = |(place, index): ((i32, i32), u32)| {
            let delta = if is_within(place, sequence, from, to) { delta } else { 0 };
            ((place.0, place.1.saturating_add(delta)), index)
        };
        self.by_place = std::mem::take(&mut self.by_place).into_iter().map(moved).collect();
    }

    /// Number of the token that will be given by a computation of the one at this place, if that one is known.
    pub(super) fn next_after(&self, sequence: i32, position: i32) -> Option<u32> {
        self.by_place.contains_key(&(sequence, position)).then_some(self.next_index)
    }

    /// Hands out what is left and says how many tokens decode steps gave.
    pub(super) fn finish(mut self, out: &mut Vec<TokenRow>) -> u64 {
        out.append(&mut self.open);
        self.held.iter_mut().for_each(|(_, answer)| *answer = None);
        self.hand_out(out);
        self.decoded
    }

    fn numbered(&mut self, token: GeneratedToken) -> TokenRow {
        let token_index = self.next_index;
        self.next_index += 1;
        if let Some(position) = token.position {
            self.by_place.insert((token.sequence, position), token_index);
        }
        TokenRow {
            token_index,
            step: token.step,
            sequence: token.sequence,
            position: token.position,
            token_id: token.id,
            text: token.text,
            is_generated: false,
            begin_ns: 0,
            end_ns: 0,
            rss_bytes: None,
            kv_bytes: None,
            pss_bytes: None,
            anon_bytes: None,
            gpu_bytes: None,
        }
    }
}

fn is_within((owner, position): (i32, i32), sequence: i32, from: i32, to: i32) -> bool {
    (sequence < 0 || owner == sequence) && position >= from && (to < 0 || position < to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: i32, position: i32) -> BatchToken {
        BatchToken { id, position, sequence: 0 }
    }

    #[test]
    fn a_token_that_moved_is_not_listed_again() {
        let (mut log, mut rows) = (TokenLog::default(), Vec::new());
        log.batch_begins(0, &[token(7, 0), token(8, 1), token(9, 2)], 10, &mut rows);
        log.batch_ends(20, Some(100), &mut rows);
        let chosen = GeneratedToken { step: 0, sequence: 0, position: Some(3), id: Some(5), text: "x".to_owned() };
        log.generated(chosen, 21, Some(100), None, &mut rows);
        log.removed(0, 1, 2);
        log.shifted(0, 2, -1, -1);
        assert_eq!((log.next_after(0, 2), log.next_after(0, 3)), (Some(4), None));
        log.batch_begins(1, &[token(5, 2)], 30, &mut rows);
        log.batch_ends(40, Some(100), &mut rows);
        assert_eq!(log.finish(&mut rows), 0);
        let listed: Vec<_> = rows.iter().map(|row| (row.token_index, row.token_id, row.is_generated)).collect();
        assert_eq!(listed, [(0, Some(7), false), (1, Some(8), false), (2, Some(9), false), (3, Some(5), true)]);
        assert_eq!((rows[0].begin_ns, rows[0].end_ns, rows[0].kv_bytes), (10, 20, Some(100)));
    }
}
