//! Puts the rows of `trace` in the order of time.
//!
//! Rows come graph by graph, and two processes compute at the same time. So a row waits until no earlier one can come.
//! The rows of one process come in order, and then nothing is sorted or copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use dwell_events::schema::trace;

/// Rows that wait for earlier ones.
#[derive(Default)]
pub(crate) struct TraceOrder {
    /// In the order in which they came; the first is what was left the last time.
    waiting: Vec<RecordBatch>,
    /// Rows that were left the last time, and rows that came since.
    left_rows: usize,
    new_rows: usize,
    /// Rows that were handed out.
    ordered_rows: u64,
}

impl TraceOrder {
    /// Takes rows and hands out those that are earlier than `before_ns`, in order and numbered anew; all if that is none.
    pub(crate) fn push(&mut self, batch: RecordBatch, before_ns: Option<u64>) -> Option<RecordBatch> {
        self.new_rows += batch.num_rows();
        self.waiting.push(batch);
        // Each time costs as much as all rows that wait, so it has to be worth it.
        if before_ns.is_some() && self.new_rows < self.left_rows {
            return None;
        }
        let rows = match &self.waiting[..] {
            [only] => only.clone(),
            several => concat_batches(&trace::schema(), several).expect("all have the columns of the table"),
        };
        let rows = in_order(rows);
        let ready = times_ns(&rows).partition_point(|time_ns| before_ns.is_none_or(|before_ns| *time_ns < before_ns));
        let left = rows.slice(ready, rows.num_rows() - ready);
        (self.left_rows, self.new_rows) = (left.num_rows(), 0);
        self.waiting = if left.num_rows() > 0 { vec![left] } else { Vec::new() };
        (ready > 0).then(|| self.numbered(&rows.slice(0, ready)))
    }

    /// Rows are numbered in the order in which they are written.
    fn numbered(&mut self, rows: &RecordBatch) -> RecordBatch {
        let first = self.ordered_rows;
        self.ordered_rows += rows.num_rows() as u64;
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..self.ordered_rows));
        let schema = rows.schema();
        let columns = schema.fields().iter().zip(rows.columns());
        let columns =
            columns.map(|(field, column)| if field.name() == "sample_id" { numbers.clone() } else { column.clone() });
        RecordBatch::try_new(schema.clone(), columns.collect()).expect("a column took the place of one like it")
    }
}

fn times_ns(rows: &RecordBatch) -> &[u64] {
    rows["timestamp_ns"].as_primitive::<UInt64Type>().values()
}

/// The rows by time; those of the same time stay as they came.
fn in_order(rows: RecordBatch) -> RecordBatch {
    let times_ns = times_ns(&rows);
    if times_ns.is_sorted() {
        return rows;
    }
    let mut order: Vec<u64> = (0..times_ns.len() as u64).collect();
    order.sort_by_key(|&row| times_ns[row as usize]);
    take_record_batch(&rows, &UInt64Array::from(order)).expect("each place is one of a row")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_events::schema::trace::{TraceBuilder, TraceColumns, TraceRow};

    /// Rows at these times, of a tensor whose name says which they are.
    fn batch(builder: &mut TraceBuilder, tensor: &str, times_ns: &[u64]) -> RecordBatch {
        for &timestamp_ns in times_ns {
            builder.push(&TraceRow { timestamp_ns, tensor, source: "tensor_ops", ..TraceRow::EMPTY });
        }
        builder.finish_batch()
    }

    /// Number, time and tensor of each row.
    fn written(batches: Vec<Option<RecordBatch>>) -> Vec<(u64, u64, String)> {
        let mut rows = Vec::new();
        for batch in batches.into_iter().flatten() {
            let columns = TraceColumns::of(&batch).unwrap();
            let numbers = batch["sample_id"].as_primitive::<UInt64Type>();
            rows.extend((0..columns.len()).map(|row| {
                let access = columns.row(row).unwrap();
                (numbers.value(row), access.timestamp_ns, access.tensor.to_owned())
            }));
        }
        rows
    }

    #[test]
    fn rows_of_two_processes_are_written_by_time_and_numbered_as_written() {
        let (mut order, mut builder) = (TraceOrder::default(), TraceBuilder::new("run"));
        let batches = vec![
            order.push(batch(&mut builder, "a", &[10, 20, 50]), Some(15)),
            order.push(batch(&mut builder, "b", &[15, 20, 30]), Some(40)),
            order.push(batch(&mut builder, "b", &[40, 45]), Some(60)),
            order.push(batch(&mut builder, "c", &[70, 65]), None),
        ];
        let rows = written(batches);
        let expected = [
            (10, "a"),
            (15, "b"),
            (20, "a"),
            (20, "b"),
            (30, "b"),
            (40, "b"),
            (45, "b"),
            (50, "a"),
            (65, "c"),
            (70, "c"),
        ];
        let expected: Vec<(u64, u64, String)> =
            (0..).zip(expected).map(|(number, (time_ns, tensor))| (number, time_ns, tensor.to_owned())).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn few_rows_that_come_to_many_that_wait_wait_with_them() {
        let (mut order, mut builder) = (TraceOrder::default(), TraceBuilder::new("run"));
        assert!(order.push(batch(&mut builder, "a", &[100, 101, 102]), Some(5)).is_none());
        assert!(order.push(batch(&mut builder, "b", &[5]), Some(6)).is_none());
        assert!(order.push(batch(&mut builder, "b", &[6]), Some(7)).is_none());
        let rows = written(vec![order.push(batch(&mut builder, "b", &[7]), Some(8))]);
        assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [5, 6, 7]);
        let rest = written(vec![order.push(batch(&mut builder, "b", &[]), None)]);
        assert_eq!(rest.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(3, 100), (4, 101), (5, 102)]);
    }

    #[test]
    fn rows_that_are_in_order_are_written_as_they_came() {
        let (mut order, mut builder) = (TraceOrder::default(), TraceBuilder::new("run"));
        let rows = batch(&mut builder, "a", &[1, 2, 2, 3]);
        assert_eq!(order.push(rows.clone(), Some(4)), Some(rows));
        assert_eq!(order.push(batch(&mut builder, "a", &[]), None), None);
    }
}
