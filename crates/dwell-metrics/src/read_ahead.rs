//! Reading a long table on a thread of its own, ahead of the analysis.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread;

use arrow_array::RecordBatch;
use dwell_store::{StoreError, TableReader};

use crate::MetricsError;

/// Batches that wait for the analysis at most: some megabytes.
const BATCHES_AHEAD: usize = 8;

/// Rows from which on a thread is worth its cost.
const LEAST_ROWS: u64 = 2_000_000;

type Batch = Result<RecordBatch, StoreError>;

/// Gives all batches of a table, in order, until one cannot be read or is refused, or no more are wanted.
pub(crate) fn for_each_batch(
    table: TableReader,
    mut take: impl FnMut(&RecordBatch) -> Result<ControlFlow<()>, MetricsError>,
) -> Result<ControlFlow<()>, MetricsError> {
    let is_long = table.total_rows() >= LEAST_ROWS;
    let mut take = |batch: Batch| take(&batch?);
    if is_long { read_ahead(table, &mut take) } else { taken(table, &mut take) }
}

/// Why no more batches are taken.
type End = Option<MetricsError>;

fn taken(
    mut batches: impl Iterator<Item = Batch>,
    take: &mut impl FnMut(Batch) -> Result<ControlFlow<()>, MetricsError>,
) -> Result<ControlFlow<()>, MetricsError> {
    let flow: ControlFlow<End> = batches.try_for_each(|batch| match take(batch) {
        Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
        Ok(ControlFlow::Break(())) => ControlFlow::Break(None),
        Err(error) => ControlFlow::Break(Some(error)),
    });
    match flow {
        ControlFlow::Break(Some(error)) => Err(error),
        ControlFlow::Break(None) => Ok(ControlFlow::Break(())),
        ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
    }
}

fn read_ahead(
    mut table: TableReader,
    take: &mut impl FnMut(Batch) -> Result<ControlFlow<()>, MetricsError>,
) -> Result<ControlFlow<()>, MetricsError> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_AHEAD);
        // Ends with the table, or when nobody receives any more.
        scope.spawn(move || table.try_for_each(|batch| sender.send(batch).ok()));
        taken(receiver.into_iter(), take)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dwell_events::schema::Table;
    use dwell_events::schema::trace::{TraceBuilder, TraceRow};
    use dwell_store::{TableWriter, open_table_columns};

    use super::*;

    /// Enough for more batches than may wait.
    const ROWS: u64 = 200_000;

    fn written_table(dir: &Path) -> impl Fn() -> TableReader + use<> {
        let mut table = TableWriter::create(dir, Table::Trace).unwrap();
        let mut rows = TraceBuilder::new("run");
        (0..ROWS).for_each(|row| rows.push(&TraceRow { address: row, ..TraceRow::EMPTY }));
        table.write(&rows.finish_batch()).unwrap();
        table.finish().unwrap();
        let dir = dir.to_owned();
        move || open_table_columns(&dir, Table::Trace, &["address"]).unwrap()
    }

    #[test]
    fn batches_that_are_read_ahead_come_in_the_order_of_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let table = written_table(dir.path());
        let mut ahead: Vec<RecordBatch> = Vec::new();
        let flow = read_ahead(table(), &mut |batch| {
            ahead.push(batch?);
            Ok(ControlFlow::Continue(()))
        });
        assert!(flow.unwrap().is_continue());
        assert!(ahead.len() > BATCHES_AHEAD + 1, "{} batches", ahead.len());
        let read: Vec<RecordBatch> = table().map(Result::unwrap).collect();
        assert_eq!(ahead, read);
    }

    #[test]
    fn a_refused_batch_is_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let table = written_table(dir.path());
        let mut taken = 0;
        let outcome = read_ahead(table(), &mut |_| {
            taken += 1;
            if taken == 2 {
                Err(MetricsError::NotFinished { run: dir.path().to_owned() })
            } else {
                Ok(ControlFlow::Continue(()))
            }
        });
        assert!(matches!(outcome, Err(MetricsError::NotFinished { .. })));
        assert_eq!(taken, 2);
    }

    #[test]
    fn no_batch_comes_after_the_last_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let table = written_table(dir.path());
        for is_ahead in [false, true] {
            let mut taken_batches = 0;
            let mut take = |batch: Batch| {
                batch?;
                taken_batches += 1;
                Ok(if taken_batches == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let outcome = if is_ahead { read_ahead(table(), &mut take) } else { taken(table(), &mut take) };
            assert!(matches!(outcome, Ok(ControlFlow::Break(()))));
            assert_eq!(taken_batches, 3);
        }
    }
}
