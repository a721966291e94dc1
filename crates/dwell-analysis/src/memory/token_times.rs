//! What the report needs of the tokens of a run: when there were how many, and how long each took.

use std::collections::HashMap;

use dwell_events::schema::tokens::TokenRow;

/// Times of the tokens, taken row by row in the order of the tokens table.
#[derive(Clone, Debug, Default)]
pub struct TokenTimes {
    /// Times of the tokens that the model chose, and bytes of KV cache then; a missing number is the largest.
    generated: Vec<(u64, u64)>,
    /// Times at which prompt tokens had been consumed, and how many.
    prompts: Vec<(u64, u64)>,
    /// Times between two tokens of one answer.
    intervals_ns: Vec<u64>,
    /// First and last token of every answer, in order.
    answers: Vec<Answer>,
    /// The answer that a sequence is in.
    current: HashMap<i32, usize>,
}

/// The tokens that followed one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) tokens: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl TokenTimes {
    /// Adds a token.
    pub fn push(&mut self, row: &TokenRow) {
        if !row.is_generated {
            match self.prompts.last_mut() {
                Some((time_ns, count)) if *time_ns == row.end_ns => *count += 1,
                _ => self.prompts.push((row.end_ns, 1)),
            }
            return;
        }
        self.generated.push((row.end_ns, row.kv_bytes.unwrap_or(UNKNOWN)));
        self.note_answer(row);
    }

    /// Step 0 is chosen after a prompt, so it begins an answer.
    fn note_answer(&mut self, row: &TokenRow) {
        let open = self.current.get(&row.sequence).copied().filter(|_| row.step > 0);
        match open.and_then(|place| self.answers.get_mut(place)) {
            Some(answer) => {
                self.intervals_ns.push(row.end_ns.saturating_sub(answer.last_ns));
                answer.last_ns = row.end_ns;
                answer.tokens += 1;
            }
            None => {
                self.current.insert(row.sequence, self.answers.len());
                self.answers.push(Answer { first_ns: row.end_ns, last_ns: row.end_ns, tokens: 1 });
            }
        }
    }

    /// Tokens that the model chose.
    pub fn generated(&self) -> u64 {
        self.generated.len() as u64
    }

    /// Prompt tokens that were listed; a server lists none.
    pub fn prompt_tokens(&self) -> u64 {
        self.prompts.iter().map(|(_, count)| count).sum()
    }

    /// Times of the first and the last token that the model chose.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.generated.first()?.0, self.generated.last()?.0))
    }

    pub(crate) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    pub(super) fn intervals_ns(&self) -> &[u64] {
        &self.intervals_ns
    }

    pub(super) fn prompts(&self) -> &[(u64, u64)] {
        &self.prompts
    }

    /// Times at which the model chose tokens, and how many.
    pub(super) fn chosen(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.generated.iter().map(|&(time_ns, _)| (time_ns, 1))
    }

    /// Bytes of KV cache, for the tokens that say it.
    pub(super) fn live_kv_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.generated.iter().map(|&(_, kv_bytes)| kv_bytes).filter(|kv_bytes| *kv_bytes != UNKNOWN)
    }
}

/// A number that grows with time.
pub(super) struct Counts {
    points: Vec<(u64, u64)>,
}

impl Counts {
    /// From times in any order and what was added then.
    pub(super) fn of(added: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut points: Vec<(u64, u64)> = added.collect();
        points.sort_by_key(|&(time_ns, _)| time_ns);
        let mut total = 0u64;
        for (_, count) in &mut points {
            total = total.saturating_add(*count);
            *count = total;
        }
        // Of several at the same time, the last has all of them.
        points.reverse();
        points.dedup_by_key(|(time_ns, _)| *time_ns);
        points.reverse();
        Self { points }
    }

    pub(super) fn span(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.0, self.points.last()?.0))
    }

    /// The number at any time: none before the first moment, all after the last.
    pub(super) fn reached_by(&self, time_ns: u64) -> f64 {
        let is_after = self.points.last().filter(|&&(last_ns, _)| time_ns > last_ns);
        is_after.map_or_else(|| self.at(time_ns).unwrap_or(0.0), |&(_, count)| count as f64)
    }

    /// The number at a time, on the line between the two moments around it; none outside.
    pub(super) fn at(&self, time_ns: u64) -> Option<f64> {
        let after = self.points.partition_point(|&(moment_ns, _)| moment_ns < time_ns);
        let &(after_ns, count) = self.points.get(after)?;
        if after_ns == time_ns {
            return Some(count as f64);
        }
        let (before_ns, earlier) = self.points[after.checked_sub(1)?];
        let share = (time_ns - before_ns) as f64 / (after_ns - before_ns) as f64;
        Some(earlier as f64 + share * (count - earlier) as f64)
    }
}
