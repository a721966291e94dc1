//! Counts what was not seen.

use std::collections::BTreeMap;

use dwell_events::LossKind;
use dwell_events::schema::loss::LossRow;

/// Losses of one collector, by kind.
pub struct LossCount {
    source: &'static str,
    by_kind: BTreeMap<LossKind, LossRow>,
}

impl LossCount {
    /// No losses yet, of this collector.
    pub fn new(source: &'static str) -> Self {
        Self { source, by_kind: BTreeMap::new() }
    }

    /// Adds occurrences of a kind of loss; the first detail is kept.
    pub fn add(&mut self, kind: LossKind, count: u64, bytes: Option<u64>, detail: impl FnOnce() -> String) {
        let row = self.by_kind.entry(kind).or_insert_with(|| LossRow {
            kind,
            source: self.source,
            count: 0,
            bytes: None,
            detail: detail(),
        });
        row.count = row.count.saturating_add(count);
        if let Some(bytes) = bytes {
            row.bytes = Some(row.bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    /// The rows of the loss table.
    pub fn into_rows(self) -> Vec<LossRow> {
        self.by_kind.into_values().collect()
    }
}
