//! Parcels in order become batches with a place in the file.

use std::time::{Duration, Instant};

use super::batch::Batch;
use super::grant::Lease;
use super::parcel::{EncodedParcel, FlushEnd, Source};
use super::pipe::Pipe;
use super::queues::Next;
use super::sink::Whole;
use crate::container::{IndexBuilder, MAX_BATCH_ROWS, Row, batch_frame};

/// How often the writer looks around while somebody waits for memory.
const LOOK_AROUND: Duration = Duration::from_millis(5);
/// A batch takes at most one part in so many of the free disk. A full disk refuses a batch as a whole, so the batches
/// shrink with the room that is left, and nearly all of it is used.
const FREE_DISK_DIVISOR: u64 = 4;

/// Puts parcels together; gives the index back at the end. The thread `dwell-writer`.
pub(super) fn write_batches(pipe: &Pipe, index: IndexBuilder, whole: Whole) -> IndexBuilder {
    let mut writer = Writer { pipe, index, end: whole, open: OpenBatch::default() };
    loop {
        match pipe.reorder.next(writer.patience()) {
            Next::Parcel(_) if pipe.failure.is_set() => {}
            Next::Parcel(parcel) => writer.add(*parcel),
            Next::Nothing => pipe.seal_if_due(),
            Next::Closed => return writer.index,
        }
        if writer.is_due() {
            writer.close_batch();
        }
    }
}

struct Writer<'a> {
    pipe: &'a Pipe,
    index: IndexBuilder,
    /// What is whole once all batches begun so far are in the file.
    end: Whole,
    open: OpenBatch,
}

/// A batch that is still growing.
#[derive(Default)]
struct OpenBatch {
    rows: Vec<Row>,
    payloads: Vec<Source>,
    leases: Vec<Lease>,
    payload_bytes: u64,
    /// It is written once it holds this much.
    due_bytes: u64,
    /// When its first tensor came; `None` if it is empty.
    began: Option<Instant>,
}

impl Writer<'_> {
    fn add(&mut self, parcel: EncodedParcel) {
        if self.open.rows.len() + parcel.rows.len() > MAX_BATCH_ROWS {
            self.close_batch();
        }
        if self.open.began.is_none() {
            self.open.due_bytes = self.due_bytes();
        }
        let EncodedParcel { place, rows, payload, lease, flush_end, began } = parcel;
        self.open.payload_bytes += payload.bytes().len() as u64;
        self.open.rows.extend(rows);
        self.open.payloads.push(payload);
        self.open.leases.extend(lease);
        self.open.began.get_or_insert(began);
        match flush_end {
            Some(flush_end) => self.flush(place, &flush_end),
            None => self.end.parcels = place + 1,
        }
    }

    /// Ends the batch with the parcel of this place, and says where in the file that is. Only then does the parcel
    /// count as written.
    fn flush(&mut self, place: u64, flush_end: &FlushEnd) {
        self.close_batch();
        // Set once: every flush has a cell of its own.
        let _ = flush_end.set(self.end.bytes);
        self.end.parcels = place + 1;
        self.pipe.sink.skip(self.end.parcels);
    }

    fn close_batch(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        if open.rows.is_empty() {
            return;
        }
        let version = self.pipe.version;
        if !version.has_cosines() {
            // The index at the end says what the batches say.
            open.rows.iter_mut().for_each(Row::forget_cosine);
        }
        let frame = batch_frame(&open.rows, version);
        self.index.add(&open.rows, self.end.bytes, &frame);
        let batch = Batch::new(self.end.bytes, frame, open.payloads, open.leases);
        self.end.bytes += batch.bytes;
        self.end.packets += open.rows.iter().filter(|row| matches!(row, Row::Tensor { .. })).count() as u64;
        self.pipe.sink.begin(batch, self.end);
    }

    fn is_due(&self) -> bool {
        let Some(began) = self.open.began else { return false };
        self.open.payload_bytes >= self.open.due_bytes
            || began.elapsed() >= self.pipe.options.flush_interval
            // Who waits for memory waits for this batch, if for no other.
            || (self.pipe.memory.is_awaited() && self.pipe.sink.is_idle())
    }

    /// How much the next batch may hold.
    fn due_bytes(&self) -> u64 {
        let flush_bytes = self.pipe.layout.flush_bytes;
        let under_way_bytes = self.end.bytes.saturating_sub(self.pipe.sink.whole().bytes);
        match self.pipe.sink.free_disk_bytes() {
            Some(free_bytes) => flush_bytes.min(free_bytes.saturating_sub(under_way_bytes) / FREE_DISK_DIVISOR),
            None => flush_bytes,
        }
    }

    /// How long to wait for the next parcel before looking around.
    fn patience(&self) -> Duration {
        let interval = self.pipe.options.flush_interval.max(Duration::from_millis(1));
        if self.pipe.memory.is_awaited() {
            return LOOK_AROUND.min(interval);
        }
        match self.open.began {
            Some(began) => interval.saturating_sub(began.elapsed()).max(Duration::from_millis(1)),
            // Half, so that a tensor that comes right after a look waits no longer than one and a half.
            None => interval / 2,
        }
    }
}
