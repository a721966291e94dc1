//! Reading a long table on a thread of its own, ahead of the analysis.

use std::sync::mpsc::sync_channel;
use std::thread;

use arrow_array::RecordBatch;
use dwell_store::{StoreError, TableReader};

use crate::MetricsError;

/// Batches that wait for the analysis at most: some megabytes.
const BATCHES_AHEAD: usize = 8;

/// Rows from which on a thread is worth its cost.
const LEAST_ROWS: u64 = 2_000_000;

/// Gives all batches of a table, in order, until one is refused.
pub(crate) fn for_each_batch(
    table: TableReader,
    mut take: impl FnMut(&RecordBatch) -> Result<(), MetricsError>,
) -> Result<(), MetricsError> {
    let mut take_next = |batch: Result<RecordBatch, StoreError>| take(&batch?);
    if table.total_rows() < LEAST_ROWS {
        return { table }.try_for_each(take_next);
    }
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_AHEAD);
        // Ends with the table, or when nobody receives any more.
        scope.spawn(move || { table }.try_for_each(|batch| sender.send(batch).ok()));
        receiver.into_iter().try_for_each(&mut take_next)
    })
}
