//! What is missing from a stream of KV cache events, as losses.

use dwell_events::kv_blocks::KvBlocksReport;
use dwell_events::schema::loss::LossRow;
use dwell_events::{CollectorName, LossKind};

use crate::limits::STATE_MAX_BYTES;

/// What is missing, as rows of the loss table.
pub fn losses(report: &KvBlocksReport) -> Vec<LossRow> {
    let blocks = &report.blocks;
    let undecodable = report.first_undecodable.clone().unwrap_or_default();
    let unmatched =
        format!("removed and never stored; the first is {}", blocks.first_unmatched.as_deref().unwrap_or("unknown"));
    let found = [
        (LossKind::UndecodableRecords, report.undecodable_batches, undecodable),
        (LossKind::LostKvBatches, report.lost_batches, "numbers that are missing between batches".to_owned()),
        (LossKind::UnmatchedKvEvents, blocks.unmatched, unmatched),
        (
            LossKind::UnmatchedKvEvents,
            blocks.not_followed,
            format!("stored while others took {} MiB of memory, or on too many media", STATE_MAX_BYTES >> 20),
        ),
        (LossKind::UnknownKvEvents, blocks.unknown_events, "events with another tag".to_owned()),
        (LossKind::UnseenKvHistory, report.unseen_batches, "numbers before that of the first batch".to_owned()),
    ];
    let rows = found.into_iter().filter(|(_, count, _)| *count > 0);
    rows.map(|(kind, count, detail)| LossRow {
        kind,
        source: CollectorName::KV_EVENTS.name(),
        count,
        bytes: None,
        detail,
    })
    .collect()
}
