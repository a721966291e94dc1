//! From a ring to its raw streams.

use std::path::Path;
use std::time::{Duration, Instant};

use dwell_records::{Frame, Kind, split_frame};
use dwell_ring::Consumer;
use dwell_store::StoreError;

use crate::record_stream::{FirstNew, RecordStreams, StreamPaths};
use crate::{CollectError, rings};

/// How long records may wait in memory; what a kill of the observer can delay, not lose, because they are taken out of
/// the ring only after they were written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of records that are written at once.
const FLUSH_BYTES: usize = 1 << 20;

/// Empties one ring into its raw streams.
pub(crate) struct Recording {
    ring: Consumer,
    streams: RecordStreams,
    /// Bytes copied out of the ring that are not a whole frame yet.
    partial: Vec<u8>,
    /// Bytes copied out of the ring that are not written yet.
    unwritten_ring_bytes: usize,
    last_flush: Instant,
    /// Records that are in the streams already are skipped (when a killed run is continued).
    first_new: FirstNew,
    /// The record taken in last.
    last_sequence: Option<u64>,
    /// Whether the ring held something that is no record; what follows it cannot be read.
    is_damaged: bool,
}

impl Recording {
    /// Opens a ring and begins its streams.
    pub(crate) fn begin(ring: &Path, streams: &StreamPaths) -> Result<Self, CollectError> {
        Ok(Self::new(open_ring(ring)?, RecordStreams::begin(streams)?, FirstNew::default()))
    }

    /// Opens a ring that a killed observer left and continues its streams with the records that they lack.
    pub(crate) fn resume(ring: &Path, streams: &StreamPaths, first_new: FirstNew) -> Result<Self, CollectError> {
        Ok(Self::new(open_ring(ring)?, RecordStreams::resume(streams), first_new))
    }

    fn new(ring: Consumer, streams: RecordStreams, first_new: FirstNew) -> Self {
        Self {
            ring,
            streams,
            partial: Vec::new(),
            unwritten_ring_bytes: 0,
            last_flush: Instant::now(),
            first_new,
            last_sequence: None,
            is_damaged: false,
        }
    }

    /// Takes in what waits in the ring, telling `seen` of each new record, and writes it if it is time.
    pub(crate) fn drain(&mut self, seen: impl FnMut(&Frame<'_>)) -> Result<(), StoreError> {
        let before = self.partial.len();
        self.ring.peek(self.unwritten_ring_bytes, &mut self.partial);
        self.unwritten_ring_bytes += self.partial.len() - before;
        self.take_in_frames(seen);
        let is_ring_filling = self.unwritten_ring_bytes > self.ring.capacity_bytes() / 2;
        let is_due = self.last_flush.elapsed() >= FLUSH_INTERVAL || self.streams.waiting_bytes() >= FLUSH_BYTES;
        if is_due || is_ring_filling {
            self.flush()?;
        }
        Ok(())
    }

    fn take_in_frames(&mut self, mut seen: impl FnMut(&Frame<'_>)) {
        let mut rest = &self.partial[..];
        while !self.is_damaged {
            let (frame, after) = match split_frame(rest) {
                Ok(Some((frame, after))) if is_next(&frame, self.last_sequence) => (frame, after),
                Ok(None) => break,
                _ => {
                    self.is_damaged = true;
                    break;
                }
            };
            if self.first_new.is_new(&frame) {
                self.streams.push(&frame);
                seen(&frame);
            }
            self.last_sequence = Some(frame.sequence);
            rest = after;
        }
        let consumed = if self.is_damaged { self.partial.len() } else { self.partial.len() - rest.len() };
        self.partial.drain(..consumed);
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.last_flush = Instant::now();
        self.streams.flush()?;
        // Written, all of them: the producer may have the room. Part of a frame too long for the ring stays in memory
        // alone.
        self.ring.take_out(self.unwritten_ring_bytes);
        self.unwritten_ring_bytes = 0;
        Ok(())
    }

    /// Time for which the worker waited for room.
    pub(crate) fn blocked_ns(&self) -> u64 {
        self.ring.blocked_ns()
    }

    /// Writes what is left and ends the streams; the ring's file is not needed any more.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        let (ring_path, is_damaged) = (self.ring.path().to_owned(), self.is_damaged);
        self.streams.finish()?;
        if is_damaged {
            return rings::set_aside(&ring_path);
        }
        // A ring that stays behind is harmless: a later recovery finds nothing new in it.
        let _ = std::fs::remove_file(ring_path);
        Ok(())
    }
}

/// Whether a ring that was left behind holds a record that is not in its streams.
pub(crate) fn holds_new_records(ring_path: &Path, first_new: &FirstNew) -> Result<bool, CollectError> {
    let mut bytes = Vec::new();
    open_ring(ring_path)?.peek(0, &mut bytes);
    let (mut rest, mut last_sequence) = (&bytes[..], None);
    while let Ok(Some((frame, after))) = split_frame(rest) {
        if !is_next(&frame, last_sequence) {
            break;
        }
        if first_new.is_new(&frame) {
            return Ok(true);
        }
        (rest, last_sequence) = (after, Some(frame.sequence));
    }
    Ok(false)
}

fn open_ring(path: &Path) -> Result<Consumer, CollectError> {
    Consumer::open(path).map_err(|error| CollectError::Ring { reason: error.to_string(), path: path.to_owned() })
}

/// Whether bytes that look like a frame are one. A ring that was emptied in the middle of a long frame begins with bytes
/// that can look like anything; after that, records are numbered without gaps.
fn is_next(frame: &Frame<'_>, last_sequence: Option<u64>) -> bool {
    match last_sequence {
        Some(last) => last.checked_add(1) == Some(frame.sequence),
        None => Kind::from_number(frame.kind).is_some(),
    }
}
