//! Runs whose memory is a formula.

use dwell_analysis::Basis;
use dwell_analysis::memory::{KvTheory, MemoryInputs, MemoryReport, MemorySeries, ModelStart, TokenTimes};
use dwell_events::schema::memory::MemoryRow;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::{Phase, PhaseSpan};

pub const MS: u64 = 1_000_000;
pub const MIB: u64 = 1 << 20;
/// When the first token comes.
pub const BEGIN_NS: u64 = 1_000 * MS;
/// Time between two tokens.
pub const TOKEN_NS: u64 = 10 * MS;

/// A run: tokens every 10 ms, samples of its own memory from half a second before to half a second after.
pub struct Lab {
    pub tokens: TokenTimes,
    pub series: MemorySeries,
    pub phases: Vec<PhaseSpan>,
}

impl Lab {
    /// So many tokens and samples at this interval; anonymous memory as a function of the tokens so far.
    pub fn new(tokens: u64, interval_ns: u64, anon_bytes: impl Fn(f64) -> f64) -> Self {
        let rows = (0..tokens).map(|index| token(index, BEGIN_NS + index * TOKEN_NS));
        let end_ns = BEGIN_NS + tokens.saturating_sub(1) * TOKEN_NS;
        let times = (BEGIN_NS - 500 * MS..=end_ns + 500 * MS).step_by(interval_ns as usize);
        let count = |time_ns: u64| 1.0 + (time_ns as f64 - BEGIN_NS as f64) / TOKEN_NS as f64;
        let sample = |time_ns: u64| sample(time_ns, anon_bytes(count(time_ns).clamp(0.0, tokens as f64)) as u64, 0);
        Self {
            tokens: times_of(rows),
            series: series_of(times.map(sample)),
            phases: vec![
                PhaseSpan { phase: Phase::WeightLoad, begin_ns: BEGIN_NS - 900 * MS, end_ns: BEGIN_NS - 400 * MS },
                PhaseSpan { phase: Phase::Generation, begin_ns: BEGIN_NS - 400 * MS, end_ns },
            ],
        }
    }

    pub fn inputs(&self) -> MemoryInputs<'_> {
        MemoryInputs {
            series: &self.series,
            tokens: &self.tokens,
            phases: &self.phases,
            requests: &[],
            buffers: &[],
            weights: None,
            theory: None,
            start: ModelStart::default(),
            peak_rss_bytes: None,
            traced_kv: None,
        }
    }

    /// The report if the KV cache should take this much.
    pub fn report(&self, bytes_per_token: u64, context_length: u64) -> MemoryReport {
        MemoryReport::of(&MemoryInputs { theory: Some(theory(bytes_per_token, context_length)), ..self.inputs() })
    }
}

pub fn theory(bytes_per_token: u64, context_length: u64) -> KvTheory {
    let cache_bytes = Some(bytes_per_token * context_length);
    KvTheory { bytes_per_token, cache_bytes, state_bytes: None, basis: Basis::Exact }
}

pub fn times_of(rows: impl IntoIterator<Item = TokenRow>) -> TokenTimes {
    let mut times = TokenTimes::default();
    rows.into_iter().for_each(|row| times.push(&row));
    times
}

pub fn series_of(rows: impl IntoIterator<Item = MemoryRow>) -> MemorySeries {
    let mut series = MemorySeries::default();
    rows.into_iter().for_each(|row| series.push(&row));
    series
}

/// The `index`-th token of an answer.
pub fn token(index: u64, end_ns: u64) -> TokenRow {
    TokenRow {
        token_index: index as u32,
        step: index as u32,
        sequence: 0,
        position: None,
        token_id: None,
        text: String::new(),
        is_generated: true,
        begin_ns: end_ns,
        end_ns,
        rss_bytes: None,
        kv_bytes: None,
        pss_bytes: None,
        anon_bytes: None,
        gpu_bytes: None,
    }
}

/// A sample; all that is resident is anonymous or file-backed, and shared with nobody.
pub fn sample(timestamp_ns: u64, anon_bytes: u64, file_bytes: u64) -> MemoryRow {
    MemoryRow {
        timestamp_ns,
        rss_bytes: anon_bytes + file_bytes,
        pss_bytes: Some(anon_bytes + file_bytes),
        anon_bytes: Some(anon_bytes),
        file_bytes: Some(file_bytes),
        ..MemoryRow::default()
    }
}

/// Numbers between −1 and 1 that look random and are the same every time.
pub fn noise(seed: f64) -> f64 {
    let wild = (seed * 12.9898).sin() * 43_758.547;
    2.0 * (wild - wild.floor()) - 1.0
}

pub fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not within {share} of {expected}");
}
