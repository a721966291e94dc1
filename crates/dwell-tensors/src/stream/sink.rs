//! The file: batches at their places, several writes at a time, and how much of it is whole.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::batch::Batch;
use super::failure::Failure;
use super::queues::Queue;
use super::sync::{lock, wait};
use crate::container::PAGE_BYTES;
use crate::{DirectIo, TensorsError};

/// What a failed write is called in messages.
pub(super) const ACTION: &str = crate::error::STREAM_WRITING;
/// Smaller batches go through the page cache.
const LEAST_DIRECT_BYTES: u64 = 1 << 20;
/// The most slices that one system call takes.
const MAX_SLICES: usize = 1024;

/// The file of a stream, and what is in it.
pub(super) struct Sink {
    path: PathBuf,
    /// Through the page cache.
    file: File,
    /// Past the page cache, where the file system can.
    direct: Option<File>,
    is_direct_refused: AtomicBool,
    /// The page cache takes one write of a file at a time; who waits for it here sleeps, in the kernel it would spin.
    cached_turn: Mutex<()>,
    /// The most that one write takes.
    pub(super) chunk_bytes: usize,
    chunks: Queue<Chunk>,
    /// Batches from this number on are given up: a write of this one failed.
    given_up_from: AtomicU64,
    written: Mutex<Written>,
    advanced: Condvar,
}

/// Part of a batch, for one write.
struct Chunk {
    batch: Arc<Batch>,
    /// Number of the batch, from 0.
    number: u64,
    start: u64,
    end: u64,
    is_direct: bool,
}

/// What is whole in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    /// Everything before this byte is in the file.
    pub(super) bytes: u64,
    /// Everything of the parcels before this one is.
    pub(super) parcels: u64,
    /// So many tensors are.
    pub(super) packets: u64,
}

/// Batches that were begun, in order.
struct Written {
    whole: Whole,
    under_way: VecDeque<UnderWay>,
    /// Number of the first one under way.
    first_number: u64,
}

struct UnderWay {
    chunks_left: usize,
    /// The chunk with the head, which is written last: a head in the file then means a whole batch, even if the
    /// process is killed between two writes.
    head: Option<Chunk>,
    /// What is whole once this batch is, and all before it.
    then_whole: Whole,
}

impl Sink {
    /// Takes over an open, locked file of which everything before `whole` is in order.
    pub(super) fn new(path: &Path, file: File, direct_io: DirectIo, chunk_bytes: usize, whole: Whole) -> Self {
        const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
        let direct = match direct_io {
            // Refused by tmpfs and others; the page cache is then the way.
            DirectIo::Auto => OpenOptions::new().write(true).custom_flags(O_DIRECT).open(path).ok(),
            DirectIo::Off => None,
        };
        Self {
            path: path.to_path_buf(),
            file,
            direct,
            is_direct_refused: AtomicBool::new(false),
            cached_turn: Mutex::default(),
            chunk_bytes,
            chunks: Queue::new(),
            given_up_from: AtomicU64::new(u64::MAX),
            written: Mutex::new(Written { whole, under_way: VecDeque::new(), first_number: 0 }),
            advanced: Condvar::new(),
        }
    }

    /// Begins to write a batch; `then_whole` is what is whole afterwards.
    pub(super) fn begin(&self, batch: Batch, then_whole: Whole) {
        let is_direct = batch.bytes >= LEAST_DIRECT_BYTES && self.uses_direct_io();
        let batch = Arc::new(batch);
        let mut written = lock(&self.written);
        let number = written.first_number + written.under_way.len() as u64;
        let chunk_bytes = self.chunk_bytes as u64;
        let mut chunks = (0..batch.bytes).step_by(self.chunk_bytes).map(|start| {
            let end = (start + chunk_bytes).min(batch.bytes);
            Chunk { batch: batch.clone(), number, start, end, is_direct }
        });
        let head = chunks.next();
        let rest: Vec<Chunk> = chunks.collect();
        let (head, now) = if rest.is_empty() { (None, Vec::from_iter(head)) } else { (head, rest) };
        let chunks_left = now.len() + usize::from(head.is_some());
        written.under_way.push_back(UnderWay { chunks_left, head, then_whole });
        drop(written);
        self.chunks.push(now);
    }

    /// Notes that parcels without any row are done once all batches begun before are.
    pub(super) fn skip(&self, parcels: u64) {
        let mut written = lock(&self.written);
        match written.under_way.back_mut() {
            Some(last) => last.then_whole.parcels = parcels,
            None => written.whole.parcels = parcels,
        }
        drop(written);
        self.advanced.notify_all();
    }

    /// Writes chunks until the queue is closed. After a failure those of earlier batches are still written, and the
    /// others let go. `on_idle` is called whenever nothing is under way any more.
    pub(super) fn write_chunks(&self, on_error: impl Fn(io::Error), on_idle: impl Fn()) {
        let mut staging = Vec::new();
        while let Some(chunk) = self.chunks.pop() {
            if chunk.number >= self.given_up_from.load(Ordering::Acquire) {
                continue;
            }
            match self.write_chunk(&chunk, &mut staging) {
                Ok(()) => {
                    // Buffers go back before anybody is told.
                    let number = chunk.number;
                    drop(chunk);
                    if self.is_done(number) {
                        on_idle();
                    }
                }
                Err(error) => {
                    self.given_up_from.fetch_min(chunk.number, Ordering::AcqRel);
                    on_error(error);
                }
            }
        }
    }

    /// Notes that a chunk is in the file; whether nothing is under way any more.
    fn is_done(&self, number: u64) -> bool {
        let mut written = lock(&self.written);
        let place = (number - written.first_number) as usize;
        let mut head = None;
        if let Some(batch) = written.under_way.get_mut(place) {
            batch.chunks_left -= 1;
            head = batch.head.take_if(|_| batch.chunks_left == 1);
        }
        let mut has_advanced = false;
        while let Some(first) = written.under_way.front().filter(|batch| batch.chunks_left == 0) {
            written.whole = first.then_whole;
            written.under_way.pop_front();
            written.first_number += 1;
            has_advanced = true;
        }
        let is_idle = written.under_way.is_empty();
        drop(written);
        // Before all others: its batch is what everybody waits for.
        head.into_iter().for_each(|head| self.chunks.push_front(head));
        if has_advanced {
            self.advanced.notify_all();
        }
        is_idle
    }

    fn write_chunk(&self, chunk: &Chunk, staging: &mut Vec<u8>) -> io::Result<()> {
        if let Some(direct) = self.direct.as_ref().filter(|_| chunk.is_direct && self.uses_direct_io()) {
            match write_past_cache(direct, chunk, self.chunk_bytes, staging) {
                // Some file systems refuse at the first write instead of at opening.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.is_direct_refused.store(true, Ordering::Relaxed);
                }
                outcome => return outcome,
            }
        }
        let _turn = lock(&self.cached_turn);
        write_through_cache(&self.file, chunk)
    }

    /// Whether large batches go past the page cache.
    pub(super) fn uses_direct_io(&self) -> bool {
        self.direct.is_some() && !self.is_direct_refused.load(Ordering::Relaxed)
    }

    /// What can still be written to the disk of the file; `None` if it does not say.
    pub(super) fn free_disk_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::fstatvfs(&self.file).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Whether no write is under way.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.written).under_way.is_empty()
    }

    pub(super) fn whole(&self) -> Whole {
        lock(&self.written).whole
    }

    /// Waits until all parcels before `parcels` are in the file.
    pub(super) fn wait_for(&self, parcels: u64, failure: &Failure) -> Result<(), TensorsError> {
        let mut written = lock(&self.written);
        while written.whole.parcels < parcels {
            failure.check()?;
            written = wait(&self.advanced, written);
        }
        Ok(())
    }

    /// Wakes who waits, so that they see a failure.
    pub(super) fn wake(&self) {
        // Under the lock, or somebody could begin to wait between looking and this.
        let _written = lock(&self.written);
        self.advanced.notify_all();
    }

    /// Lets the writing threads end.
    pub(super) fn close(&self) {
        self.chunks.close();
    }

    /// Appends to the end of a file that nobody else writes any more.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), TensorsError> {
        let end = self.whole().bytes;
        self.file.write_all_at(bytes, end).map_err(|error| TensorsError::from_io(ACTION, &self.path, error))
    }

    /// Cuts off what is not whole.
    pub(super) fn cut_to_whole(&self) -> Result<(), TensorsError> {
        let end = self.whole().bytes;
        self.file.set_len(end).map_err(|error| TensorsError::from_io("cutting a tensor stream", &self.path, error))
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> Result<(), TensorsError> {
        self.file.sync_data().map_err(|error| TensorsError::from_io("syncing a tensor stream", &self.path, error))
    }
}

/// Gathers a chunk at an address that the disk can read from, and writes it.
fn write_past_cache(file: &File, chunk: &Chunk, chunk_bytes: usize, staging: &mut Vec<u8>) -> io::Result<()> {
    if staging.is_empty() {
        staging.resize(chunk_bytes + PAGE_BYTES, 0);
    }
    let skipped = staging.as_ptr().align_offset(PAGE_BYTES);
    let aligned = staging.get_mut(skipped..skipped + (chunk.end - chunk.start) as usize);
    let aligned = aligned.ok_or(io::ErrorKind::InvalidInput)?;
    let mut filled = 0;
    for slice in chunk.batch.slices(chunk.start, chunk.end) {
        aligned[filled..filled + slice.len()].copy_from_slice(slice);
        filled += slice.len();
    }
    file.write_all_at(aligned, chunk.batch.offset + chunk.start)
}

fn write_through_cache(file: &File, chunk: &Chunk) -> io::Result<()> {
    let mut start = chunk.start;
    while start < chunk.end {
        let slices = chunk.batch.io_slices(start, chunk.end, MAX_SLICES);
        match rustix::io::pwritev(file, &slices, chunk.batch.offset + start) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => start += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// How much the writing threads need for gathering.
pub(super) fn staging_bytes(direct_io: DirectIo, threads: usize, chunk_bytes: usize) -> u64 {
    match direct_io {
        DirectIo::Auto => (threads * (chunk_bytes + PAGE_BYTES)) as u64,
        DirectIo::Off => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::BatchFrame;

    #[test]
    fn the_head_of_a_batch_is_written_last_and_counts_only_without_a_hole_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tensors");
        let file = File::create(&path).unwrap();
        let sink = Sink::new(&path, file, DirectIo::Off, PAGE_BYTES, Whole::default());
        let then_whole = |pages: u64| Whole { bytes: pages * PAGE_BYTES as u64, parcels: pages, packets: pages };
        let batch = |page: u64, pages: usize| {
            let frame = BatchFrame { head: vec![1; pages * PAGE_BYTES], payload_bytes: 0, tail_bytes: 0 };
            Batch::new(page * PAGE_BYTES as u64, frame, Vec::new(), Vec::new())
        };
        sink.begin(batch(0, 3), then_whole(3));
        let first: Vec<Chunk> = (0..2).map(|_| sink.chunks.pop().unwrap()).collect();
        assert_eq!([first[0].start, first[1].start], [4096, 8192]);
        sink.begin(batch(3, 1), then_whole(4));
        let second = sink.chunks.pop().unwrap();
        assert!(!sink.is_done(second.number));
        assert_eq!(sink.whole(), Whole::default());
        for chunk in first {
            assert!(!sink.is_done(chunk.number));
        }
        let head = sink.chunks.pop().unwrap();
        assert_eq!((head.number, head.start), (0, 0));
        assert!(sink.is_done(head.number));
        assert_eq!(sink.whole(), then_whole(4));
    }

    #[test]
    fn batches_before_one_that_cannot_be_written_still_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tensors");
        let sink = Sink::new(&path, File::create(&path).unwrap(), DirectIo::Off, PAGE_BYTES, Whole::default());
        let page_bytes = PAGE_BYTES as u64;
        let then_whole = |pages: u64| Whole { bytes: pages * page_bytes, parcels: pages, packets: pages };
        let batch = |offset: u64, pages: usize| {
            let frame = BatchFrame { head: vec![1; pages * PAGE_BYTES], payload_bytes: 0, tail_bytes: 0 };
            Batch::new(offset, frame, Vec::new(), Vec::new())
        };
        sink.begin(batch(0, 3), then_whole(3));
        let first: Vec<Chunk> = (0..2).map(|_| sink.chunks.pop().unwrap()).collect();
        // No file is so long.
        sink.begin(batch(1 << 63, 1), then_whole(4));
        sink.begin(batch(4 * page_bytes, 1), then_whole(5));
        sink.chunks.push(first);
        sink.close();
        let failures = std::cell::Cell::new(0);
        sink.write_chunks(|_| failures.set(failures.get() + 1), || {});
        assert_eq!((failures.get(), sink.whole()), (1, then_whole(3)));
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 3 * PAGE_BYTES]);
    }
}
