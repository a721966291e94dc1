//! The tokens of a run.

use std::collections::HashMap;

use dwell_events::engine::BatchToken;
use dwell_events::schema::tokens::TokenRow;

/// Tokens in order of appearance.
#[derive(Default)]
pub struct TokenLog {
    rows: Vec<TokenRow>,
    by_place: HashMap<(i32, i32), u32>,
    texts: HashMap<i32, String>,
    batch: Option<Batch>,
}

struct Batch {
    step: u32,
    begin_ns: u64,
    first_row: usize,
}

impl TokenLog {
    /// A prompt was cut into these tokens.
    pub fn prompt(&mut self, tokens: Vec<(i32, String)>) {
        self.texts.extend(tokens);
    }

    /// A batch is about to be computed. Tokens that the model did not produce appear here for the first time.
    pub fn batch_begins(&mut self, step: u32, tokens: &[BatchToken], time_ns: u64) {
        self.batch = Some(Batch { step, begin_ns: time_ns, first_row: self.rows.len() });
        for token in tokens {
            if self.by_place.contains_key(&(token.sequence, token.position)) {
                continue;
            }
            let text = self.texts.get(&token.id).cloned().unwrap_or_default();
            self.push(TokenRow {
                token_index: 0,
                step,
                sequence: token.sequence,
                position: token.position,
                token_id: token.id,
                text,
                is_generated: false,
                begin_ns: time_ns,
                end_ns: time_ns,
                rss_bytes: None,
                kv_bytes: None,
            });
        }
    }

    /// The batch was computed.
    pub fn batch_ends(&mut self, time_ns: u64, kv_bytes: u64) {
        if let Some(batch) = &self.batch {
            for row in &mut self.rows[batch.first_row..] {
                row.end_ns = time_ns;
                row.kv_bytes = Some(kv_bytes);
            }
        }
    }

    /// The model produced a token.
    pub fn generated(&mut self, token: BatchToken, step: u32, text: String, time_ns: u64, kv_bytes: u64) {
        let begin_ns = self.batch.as_ref().filter(|batch| batch.step == step).map_or(time_ns, |batch| batch.begin_ns);
        self.push(TokenRow {
            token_index: 0,
            step,
            sequence: token.sequence,
            position: token.position,
            token_id: token.id,
            text,
            is_generated: true,
            begin_ns,
            end_ns: time_ns,
            rss_bytes: None,
            kv_bytes: Some(kv_bytes),
        });
    }

    /// Positions of a sequence were removed or moved; other tokens may come to these places.
    pub fn forget_places(&mut self, sequence: i32, from: i32) {
        self.by_place.retain(|&(owner, position), _| (sequence >= 0 && owner != sequence) || position < from);
    }

    /// Number of the token at a place.
    pub fn index_at(&self, sequence: i32, position: i32) -> Option<u32> {
        self.by_place.get(&(sequence, position)).copied()
    }

    /// The rows of the token table.
    pub fn into_rows(self) -> Vec<TokenRow> {
        self.rows
    }

    fn push(&mut self, mut row: TokenRow) {
        row.token_index = self.rows.len() as u32;
        self.by_place.insert((row.sequence, row.position), row.token_index);
        self.rows.push(row);
    }
}
