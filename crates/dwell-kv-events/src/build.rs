//! From the raw stream to `kv_block_lifecycle`.

use std::path::Path;

use dwell_events::schema::kv_block_lifecycle::event_batch;
use dwell_store::{StoreError, TableWriter};

use crate::decode_batch;
use crate::prefix::CachedPrompt;
use crate::raw::{RawBatch, RawBatches, RawItem};
use crate::tracker::{BlockTracker, TrackOptions};
use dwell_events::kv_blocks::KvBlocksReport;

/// Rows that are gathered before they are written.
const ROWS_PER_BATCH: usize = 32 * 1024;

/// Makes the rows of a recorded stream; the caller finishes the table. What could not be read or is missing is counted
/// in the report, from the stream alone. `prompts` are those of requests of which the server said what they found.
pub fn build_kv_blocks(
    raw: &Path,
    options: &TrackOptions,
    prompts: Vec<CachedPrompt>,
    table: &mut TableWriter,
) -> Result<KvBlocksReport, StoreError> {
    let mut build = Build {
        tracker: BlockTracker::with_prompts(options.clone(), prompts),
        report: KvBlocksReport::default(),
        publisher: None,
        next_sequence: 0,
    };
    for item in RawBatches::open(raw)? {
        match item {
            RawItem::Batch(batch) => build.add(&batch),
            RawItem::Damage(reason) => build.damage(reason),
        }
        write_rows(&mut build.tracker, ROWS_PER_BATCH, table)?;
    }
    let Build { mut tracker, mut report, .. } = build;
    report.blocks = tracker.end();
    write_rows(&mut tracker, 1, table)?;
    report.rows = table.rows();
    Ok(report)
}

/// Writes the rows that are there, if there are so many.
fn write_rows(tracker: &mut BlockTracker, least: usize, table: &mut TableWriter) -> Result<(), StoreError> {
    while tracker.rows_ready() >= least {
        table.write(&event_batch(&tracker.take_rows(ROWS_PER_BATCH)))?;
    }
    Ok(())
}

struct Build {
    tracker: BlockTracker,
    report: KvBlocksReport,
    publisher: Option<u32>,
    next_sequence: u64,
}

impl Build {
    fn add(&mut self, batch: &RawBatch) {
        self.follow_publisher(batch);
        if batch.sequence < self.next_sequence {
            self.report.duplicate_batches += 1;
            return;
        }
        let missing = batch.sequence - self.next_sequence;
        let is_history = self.report.batches == 0 && self.report.restarts == 0;
        let count = if is_history { &mut self.report.unseen_batches } else { &mut self.report.lost_batches };
        // A damaged number can be any.
        *count = count.saturating_add(missing);
        self.next_sequence = batch.sequence.saturating_add(1);
        self.report.batches += 1;
        self.report.replayed_batches += u64::from(batch.is_replayed);
        match decode_batch(&batch.payload) {
            Ok(events) => {
                self.report.first_unix_ns.get_or_insert(events.unix_ns);
                self.report.last_unix_ns = Some(events.unix_ns);
                self.tracker.apply(&events);
            }
            Err(error) => self.damage(error.to_string()),
        }
    }

    fn follow_publisher(&mut self, batch: &RawBatch) {
        if self.publisher.is_some_and(|publisher| publisher != batch.publisher) {
            self.report.restarts += 1;
            self.next_sequence = 0;
            self.tracker.restart();
        }
        self.publisher = Some(batch.publisher);
    }

    fn damage(&mut self, reason: String) {
        self.report.undecodable_batches += 1;
        self.report.first_undecodable.get_or_insert(reason);
    }
}
