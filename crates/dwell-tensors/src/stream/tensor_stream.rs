//! The stream as its owner sees it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dwell_clock::{monotonic_ns, unix_ns};
use dwell_files::{check_replaceable, sync_directory_of};
use rustix::fs::{FlockOperation, flock};

use super::checkpoint::{self, Checkpoint};
use super::earlier;
use super::error::StreamError;
use super::failure::Failure;
use super::intake::{FlushPoint, Intake, IntakeState};
use super::layout::Layout;
use super::memory::Memory;
use super::pipe::Pipe;
use super::progress::{Resumed, StreamProgress, StreamSummary};
use super::queues::{Queue, Reorder};
use super::resume::{self, Restored};
use super::sink::{Sink, Whole};
use super::spill::Spill;
use super::submit::{self, Elements, Given, Handover, Room};
use super::sync::lock;
use super::threads::Threads;
use super::tokens_file;
use crate::container::{
    ContainerVersion, IndexBuilder, MAX_METADATA_BYTES, MAX_TEXT_BYTES, metadata_size_bytes, read_at, schema_message,
};
use crate::{Pressure, Stored, StreamOptions, TensorHead, TensorsError, TokenMark};

/// A stream being written, from any number of threads.
///
/// Once something has gone wrong on the way to the file, every call says so; what was flushed before stays whole.
/// Dropped, it ends like [`TensorStream::abandon`].
pub struct TensorStream {
    pub(super) pipe: Arc<Pipe>,
    /// `None` once it has ended.
    threads: Option<Threads>,
    checkpoint_path: PathBuf,
    schema_crc32c: u32,
    /// Held while a checkpoint is made, so that an older one never replaces a newer one.
    checkpoint_turn: Mutex<()>,
    began: Instant,
}

/// What a stream begins with.
struct Beginning {
    file: File,
    schema: Vec<u8>,
    version: ContainerVersion,
    index: IndexBuilder,
    intake: IntakeState,
    whole: Whole,
}

impl TensorStream {
    /// Begins a stream. A file of that name, its checkpoint and its tokens are replaced: they are put aside until this
    /// one is finished, see [`earlier_path`](super::earlier_path).
    pub fn create(path: &Path, options: StreamOptions) -> Result<Self, TensorsError> {
        let (layout, checkpoint_path) = checked(path, &options)?;
        let mut file = open_locked(path, true)?;
        if !resume::is_unbegun(path, &file, &checkpoint_path) && earlier::is_put_aside(path, &checkpoint_path)? {
            file = open_locked(path, true)?;
        }
        checkpoint::remove_if_there(&checkpoint_path)?;
        checkpoint::remove_if_there(&tokens_file::tokens_path(path))?;
        let version = ContainerVersion::default();
        let schema = schema_message(&metadata(&options), version);
        let written = file.set_len(0).and_then(|()| file.write_all_at(&schema, 0));
        if let Err(error) = written {
            earlier::undo(path, &checkpoint_path);
            return Err(TensorsError::from_io("beginning a tensor stream", path, error));
        }
        // Its name; what is in it is made durable by checkpoints and at the end.
        sync_directory_of(path)?;
        let whole = Whole { bytes: schema.len() as u64, parcels: 0, packets: 0 };
        let (index, intake) = (IndexBuilder::default(), IntakeState::default());
        let beginning = Beginning { file, schema, version, index, intake, whole };
        Self::start(path, options, layout, checkpoint_path, beginning)
    }

    /// Goes on with a stream from its checkpoint; what lies behind it is cut away. One that was cut off before its first
    /// checkpoint, and holds nothing, begins anew.
    pub fn resume(path: &Path, options: StreamOptions) -> Result<(Self, Resumed), TensorsError> {
        let (layout, checkpoint_path) = checked(path, &options)?;
        let file = open_locked(path, false)?;
        if resume::is_unbegun(path, &file, &checkpoint_path) {
            drop(file);
            let stream = Self::create(path, options)?;
            stream.checkpoint()?;
            return Ok((stream, Resumed::default()));
        }
        let Restored { index, version, schema_bytes, checkpoint, excess_bytes } =
            resume::restore(path, &checkpoint_path, &options)?;
        let cut = file.set_len(checkpoint.stream_bytes).and_then(|()| read_at(&file, 0, schema_bytes));
        let schema = cut.map_err(|error| TensorsError::from_io("cutting a tensor stream", path, error))?;
        // They may tell of tokens that were cut away; those of the whole stream come at its end.
        checkpoint::remove_if_there(&tokens_file::tokens_path(path))?;
        let resumed = Resumed {
            tokens: index.tokens.clone(),
            packets: checkpoint.packets,
            next_step: checkpoint.next_step,
            trimmed_bytes: excess_bytes,
        };
        let intake = IntakeState::behind(&index, checkpoint.packets, checkpoint.next_step);
        let whole = Whole { bytes: checkpoint.stream_bytes, parcels: 0, packets: index.packets.len() as u64 };
        let beginning = Beginning { file, schema, version, index: index.into(), intake, whole };
        Ok((Self::start(path, options, layout, checkpoint_path, beginning)?, resumed))
    }

    fn start(
        path: &Path,
        options: StreamOptions,
        layout: Layout,
        checkpoint_path: PathBuf,
        beginning: Beginning,
    ) -> Result<Self, TensorsError> {
        let Beginning { file, schema, version, index, intake, whole } = beginning;
        let spill = match options.pressure {
            Pressure::Spill => {
                let dir = options.spill_dir.clone().unwrap_or_else(|| folder_of(path).to_path_buf());
                Some(Spill::create(&dir, options.max_spill_bytes)?)
            }
            Pressure::Block | Pressure::Drop => None,
        };
        let pipe = Arc::new(Pipe {
            path: path.to_path_buf(),
            memory: Memory::new(layout.tensors_bytes),
            intake: Intake::new(intake),
            work: Queue::new(),
            spilled: Queue::new(),
            spilled_waiting: AtomicU64::new(0),
            spill,
            reorder: Reorder::new(),
            sink: Sink::new(path, file, options.direct_io, layout.chunk_bytes, whole),
            failure: Failure::default(),
            layout,
            version,
            options,
        });
        let threads = Some(Threads::start(&pipe, index, whole)?);
        let schema_crc32c = checkpoint::identity(&schema);
        let checkpoint_turn = Mutex::default();
        Ok(Self { pipe, threads, checkpoint_path, schema_crc32c, checkpoint_turn, began: Instant::now() })
    }

    /// Hands over a tensor; its elements are copied.
    pub fn submit(&self, head: TensorHead, elements: &[u8]) -> Result<Handover, TensorsError> {
        self.pipe.submit(head, Given::Slice(elements))
    }

    /// Hands over a tensor whose elements stay where they are until they are encoded or written.
    pub fn submit_foreign(&self, head: TensorHead, elements: Box<dyn Elements>) -> Result<Handover, TensorsError> {
        self.pipe.submit(head, Given::Foreign(elements))
    }

    /// Room for a tensor of so many bytes, to be filled in place. `None` if there is none within `patience`: ask again.
    /// Under [`Pressure::Drop`] it comes at once, and means [`TensorStream::count_dropped`].
    pub fn reserve(&self, bytes: usize, patience: Duration) -> Result<Option<Room>, TensorsError> {
        self.pipe.reserve(bytes, patience)
    }

    /// Hands over a tensor that was filled into its room.
    pub fn submit_room(&self, head: TensorHead, room: Room) -> Result<Handover, TensorsError> {
        self.pipe.submit_room(head, room)
    }

    /// Counts a tensor as dropped, for a producer that got no room for it.
    pub fn count_dropped(&self, head: &TensorHead) -> Result<Handover, TensorsError> {
        let raw_bytes = head.raw_bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        submit::check(head, raw_bytes)?;
        self.pipe.count_dropped(head, raw_bytes)
    }

    /// Records that a token is complete: all tensors handed over so far belong to it or an earlier one.
    pub fn record_token(&self, token_id: i64, token_text: &str) -> Result<TokenMark, TensorsError> {
        if token_text.len() > MAX_TEXT_BYTES {
            let reason = format!("a text of {} bytes, and at most {MAX_TEXT_BYTES} are possible", token_text.len());
            return Err(TensorsError::UnfitTensor { name: format!("token {token_id}"), reason });
        }
        let token_text = token_text.to_owned();
        self.pipe.record_token(|token_index, packet| TokenMark {
            token_index,
            token_id,
            token_text,
            packet,
            timestamp_ns: monotonic_ns().cast_signed(),
        })
    }

    /// Returns when all that was handed over so far is in the file.
    pub fn flush(&self) -> Result<(), TensorsError> {
        self.flush_to_point().map(|_| ())
    }

    fn flush_to_point(&self) -> Result<FlushPoint, TensorsError> {
        let point = self.pipe.flush_point()?;
        self.pipe.sink.wait_for(point.parcels, &self.pipe.failure)?;
        Ok(point)
    }

    /// Makes all that was handed over so far durable, and leaves a checkpoint to resume from.
    pub fn checkpoint(&self) -> Result<(), TensorsError> {
        let _turn = lock(&self.checkpoint_turn);
        let point = self.flush_to_point()?;
        self.pipe.sink.sync()?;
        // Set before the flush counts as done.
        let stream_bytes = point.end.get().copied().ok_or(StreamError::Ended)?;
        let counts = (point.packets, point.tokens, point.next_step);
        let codec = self.pipe.options.codec.to_string();
        Checkpoint::new(&self.pipe.path, stream_bytes, counts, codec, self.schema_crc32c).write(&self.checkpoint_path)
    }

    /// How far it is.
    pub fn progress(&self) -> StreamProgress {
        let (memory_bytes, peak_memory_bytes, producers_waited) = self.pipe.memory.figures();
        let fixed_bytes = self.pipe.layout.fixed_bytes;
        let whole = self.pipe.sink.whole();
        let intake = lock(&self.pipe.intake.state);
        StreamProgress {
            packets: intake.next_packet,
            raw_bytes: intake.raw_bytes,
            written_packets: whole.packets,
            written_bytes: whole.bytes,
            dropped_packets: intake.dropped_packets,
            dropped_bytes: intake.dropped_bytes,
            spilled_packets: intake.spilled_packets,
            spilled_bytes: intake.spilled_bytes,
            tokens: intake.tokens.len() as u64,
            memory_bytes: memory_bytes + fixed_bytes,
            peak_memory_bytes: peak_memory_bytes + fixed_bytes,
            producers_waited,
        }
    }

    /// Writes what is left and the index, and removes the checkpoint.
    pub fn finish(mut self) -> Result<StreamSummary, TensorsError> {
        let index = self.end()?;
        let stored = index.as_ref().map(|index| Stored::of(index.index())).unwrap_or_default();
        self.seal(index)?;
        checkpoint::remove_if_there(&self.checkpoint_path)?;
        let progress = self.progress();
        // What holds nothing replaces nothing.
        if progress.packets > 0 || progress.tokens > 0 {
            earlier::remove(&self.pipe.path, &self.checkpoint_path)?;
        }
        Ok(self.summary(stored))
    }

    /// Writes what is left and keeps the checkpoint, for a producer that failed.
    pub fn abandon(mut self) -> Result<StreamSummary, TensorsError> {
        let index = self.end()?;
        self.pipe.sink.sync()?;
        Ok(self.summary(index.map(|index| Stored::of(index.index())).unwrap_or_default()))
    }

    /// Lets everything arrive and ends the threads; also writes the tokens, because they are all known.
    fn end(&mut self) -> Result<Option<IndexBuilder>, TensorsError> {
        let flushed = self.flush();
        let index = self.threads.take().and_then(Threads::end);
        let tokens = lock(&self.pipe.intake.state);
        let told = tokens_file::write(&self.pipe.path, &tokens.tokens, self.began.elapsed());
        if flushed.is_err() {
            // What could not be written is cut away; the first error is the one to tell.
            let _ = self.pipe.sink.cut_to_whole();
        }
        flushed.and(told).map(|()| index)
    }

    /// Appends the index; without it, the stream stays one that can be resumed.
    fn seal(&self, index: Option<IndexBuilder>) -> Result<(), TensorsError> {
        let index = index.ok_or(StreamError::Ended)?;
        let sealed = self.pipe.sink.append(&index.finish()).and_then(|()| self.pipe.sink.sync());
        if sealed.is_err() {
            let _ = self.pipe.sink.cut_to_whole();
        }
        sealed
    }

    fn summary(&self, stored: Stored) -> StreamSummary {
        StreamSummary {
            stored,
            progress: self.progress(),
            duration: self.began.elapsed(),
            used_direct_io: self.pipe.sink.uses_direct_io(),
        }
    }
}

impl Drop for TensorStream {
    fn drop(&mut self) {
        if self.threads.is_some() {
            let _ = self.end();
        }
    }
}

fn checked(path: &Path, options: &StreamOptions) -> Result<(Layout, PathBuf), TensorsError> {
    let layout = Layout::new(options)?;
    let checkpoint_path = options.checkpoint_path.clone().unwrap_or_else(|| checkpoint::default_path(path));
    if checkpoint_path == path || checkpoint_path == tokens_file::tokens_path(path) {
        let reason = format!("{checkpoint_path:?}, and a file of its own is needed");
        return Err(StreamError::UnfitOption { option: "checkpoint_path", reason }.into());
    }
    let metadata_bytes = metadata_size_bytes(&options.metadata);
    if metadata_bytes > MAX_METADATA_BYTES {
        let reason = format!("{metadata_bytes} bytes of text, and at most {MAX_METADATA_BYTES} are possible");
        return Err(StreamError::UnfitOption { option: "metadata", reason }.into());
    }
    Ok((layout, checkpoint_path))
}

/// Opens the file so that nobody else writes it.
fn open_locked(path: &Path, may_create: bool) -> Result<File, TensorsError> {
    const OPENING: &str = "opening a tensor stream for writing";
    check_replaceable(OPENING, path)?;
    let opened = OpenOptions::new().read(true).write(true).create(may_create).truncate(false).open(path);
    let file = opened.map_err(|error| TensorsError::from_io(OPENING, path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StreamError::Busy { path: path.to_path_buf() }.into()),
        Err(error) => Err(TensorsError::from_io("locking a tensor stream", path, error.into())),
    }
}

/// What the file says about itself: what the caller says, and which clock its times are of.
fn metadata(options: &StreamOptions) -> BTreeMap<String, String> {
    let mut metadata = options.metadata.clone();
    metadata.insert("dwell.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    metadata.insert("dwell.clock_anchor".to_owned(), format!("{} at {}", unix_ns(), monotonic_ns()));
    metadata
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
