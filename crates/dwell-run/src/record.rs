//! From the worker's ring to the raw stream.

use std::path::Path;
use std::time::{Duration, Instant};

use dwell_ggml::ring::Consumer;
use dwell_ggml::wire::{Frame, split_frame};
use dwell_store::{RawCompression, RawWriter, RecordsBuilder, StoreError, records_schema};

use crate::RunError;

/// How long records may wait in memory; what a kill of the observer can delay, not lose, because they are taken out of
/// the ring only after they were written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of records that are written at once.
const FLUSH_BYTES: usize = 1 << 20;

/// Empties one ring into one raw stream.
pub(crate) struct Recording {
    ring: Consumer,
    writer: RawWriter,
    builder: RecordsBuilder,
    /// Bytes copied out of the ring that are not a whole frame yet.
    partial: Vec<u8>,
    /// Bytes copied out of the ring that are not written yet.
    unwritten_ring_bytes: usize,
    last_flush: Instant,
    /// Records up to this one are in the stream already (when a killed run is continued).
    first_new_sequence: u64,
}

impl Recording {
    /// Opens a ring and begins a stream.
    pub(crate) fn begin(ring_path: &Path, stream_path: &Path) -> Result<Self, RunError> {
        let writer = RawWriter::create(stream_path, records_schema(), RawCompression::None)?;
        Self::new(ring_path, writer, 0)
    }

    /// Opens a ring that a killed observer left and continues its stream after the record `last_sequence`.
    pub(crate) fn resume(ring_path: &Path, stream_path: &Path, first_new_sequence: u64) -> Result<Self, RunError> {
        let writer = RawWriter::append(stream_path, RawCompression::None)?;
        Self::new(ring_path, writer, first_new_sequence)
    }

    fn new(ring_path: &Path, writer: RawWriter, first_new_sequence: u64) -> Result<Self, RunError> {
        let ring = Consumer::open(ring_path)
            .map_err(|error| RunError::Ring { reason: error.to_string(), path: ring_path.to_owned() })?;
        Ok(Self {
            ring,
            writer,
            builder: RecordsBuilder::new(),
            partial: Vec::new(),
            unwritten_ring_bytes: 0,
            last_flush: Instant::now(),
            first_new_sequence,
        })
    }

    /// Takes in what waits in the ring, telling `seen` of each new record, and writes it if it is time.
    pub(crate) fn drain(&mut self, mut seen: impl FnMut(&Frame<'_>)) -> Result<(), StoreError> {
        let before = self.partial.len();
        self.ring.peek(self.unwritten_ring_bytes, &mut self.partial);
        self.unwritten_ring_bytes += self.partial.len() - before;
        let mut rest = &self.partial[..];
        // A frame that cannot be split means a damaged ring; what is left of it cannot be read.
        while let Ok(Some((frame, after))) = split_frame(rest) {
            if frame.sequence >= self.first_new_sequence {
                self.builder.push(frame.sequence, frame.kind, frame.time_ns, frame.payload);
                seen(&frame);
            }
            rest = after;
        }
        let consumed = self.partial.len() - rest.len();
        self.partial.drain(..consumed);
        let is_ring_filling = self.unwritten_ring_bytes > self.ring.capacity_bytes() / 2;
        let is_due = self.last_flush.elapsed() >= FLUSH_INTERVAL || self.builder.payload_bytes() >= FLUSH_BYTES;
        if is_due || is_ring_filling {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.last_flush = Instant::now();
        if !self.builder.is_empty() {
            self.writer.write(&self.builder.finish_batch())?;
            self.writer.flush()?;
        }
        // Written: the producer may have the room. Part of a frame too long for the ring stays in memory alone.
        self.ring.take_out(self.unwritten_ring_bytes);
        self.unwritten_ring_bytes = 0;
        Ok(())
    }

    /// Whether the producer said that nothing more will come and everything was taken in.
    pub(crate) fn is_over(&self) -> bool {
        self.ring.is_closed() && self.ring.waiting_bytes() == self.unwritten_ring_bytes
    }

    /// Time for which the worker waited for room.
    pub(crate) fn blocked_ns(&self) -> u64 {
        self.ring.blocked_ns()
    }

    /// Writes what is left and ends the stream; the ring's file is not needed any more.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        let ring_path = self.ring.path().to_owned();
        self.writer.finish()?;
        // A ring that stays behind is harmless: a later recovery finds nothing new in it.
        let _ = std::fs::remove_file(ring_path);
        Ok(())
    }
}
