//! Counts what was not seen.

use std::collections::BTreeMap;

use dwell_events::LossKind;
use dwell_events::schema::loss::LossRow;

/// Collector whose losses are counted here.
const SOURCE: &str = "tensor_ops";

/// Losses of a run by kind.
#[derive(Default)]
pub struct LossCount {
    by_kind: BTreeMap<LossKind, LossRow>,
}

impl LossCount {
    /// Adds occurrences of a kind of loss; the first detail is kept.
    pub fn add(&mut self, kind: LossKind, count: u64, bytes: Option<u64>, detail: impl FnOnce() -> String) {
        let row = self.by_kind.entry(kind).or_insert_with(|| LossRow {
            kind,
            source: SOURCE,
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
