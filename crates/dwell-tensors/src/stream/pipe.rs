//! What the threads of a stream share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::Failure;
use super::intake::Intake;
use super::layout::Layout;
use super::memory::{Memory, Need, Refused};
use super::parcel::{Item, Parcel, Source};
use super::queues::{Queue, Reorder};
use super::sink::{self, Sink};
use super::spill::Spill;
use crate::StreamOptions;
use crate::container::ContainerVersion;

/// From the producers to the file.
pub(super) struct Pipe {
    pub(super) path: PathBuf,
    pub(super) options: StreamOptions,
    /// Which columns batches have.
    pub(super) version: ContainerVersion,
    pub(super) layout: Layout,
    pub(super) memory: Arc<Memory>,
    pub(super) intake: Intake,
    /// Parcels to encode.
    pub(super) work: Queue<Parcel>,
    /// Parcels whose elements wait in the spill file.
    pub(super) spilled: Queue<Parcel>,
    /// How many of them have not been read back.
    pub(super) spilled_waiting: AtomicU64,
    pub(super) spill: Option<Spill>,
    pub(super) reorder: Reorder,
    pub(super) sink: Sink,
    pub(super) failure: Failure,
}

impl Pipe {
    /// Keeps an error, and wakes everybody who could wait for what will not come.
    pub(super) fn fail(&self, action: &'static str, path: &Path, error: io::Error) {
        self.failure.keep_io(action, path, error);
        self.wake_all();
    }

    /// The same for a thread that panicked.
    pub(super) fn fail_by_panic(&self, thread: &'static str) {
        self.failure.keep_panic(thread);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.memory.close();
        self.sink.wake();
        self.reorder.poke();
    }

    /// Sends a parcel on its way; its place is taken.
    pub(super) fn dispatch(&self, parcel: Parcel) {
        if matches!(parcel.source, Source::Spilled(_)) {
            self.spilled_waiting.fetch_add(1, Ordering::AcqRel);
            self.spilled.push([parcel]);
        } else {
            self.work.push([parcel]);
        }
    }

    /// Whether tensors wait in the spill file: who comes later must go there too, or it would hold the memory that
    /// those before it need.
    pub(super) fn is_spilling(&self) -> bool {
        self.spilled_waiting.load(Ordering::Acquire) > 0
    }

    /// Reads spilled parcels back, in order, as memory allows. The thread `dwell-unspill`.
    pub(super) fn unspill(&self) {
        let Some(spill) = &self.spill else { return };
        while let Some(mut parcel) = self.spilled.pop() {
            let Source::Spilled(extent) = parcel.source else { continue };
            let need = Need {
                raw: extent.bytes as usize,
                payload: parcel.items.iter().map(|item| self.payload_bytes_of(item)).sum(),
                extra: 0,
            };
            let mut grant = match self.memory.acquire(need, None, || self.reorder.poke()) {
                Ok(grant) => grant,
                Err(Refused::System(error)) => {
                    self.fail("allocating memory", &self.path, error);
                    continue;
                }
                Err(Refused::NotYet | Refused::Closed) => continue,
            };
            grant.raw.set_length(extent.bytes as usize);
            if let Err(error) = spill.take_back(extent, grant.raw.bytes_mut()) {
                self.fail("reading the spill file", spill.dir(), error);
                continue;
            }
            parcel.source = Source::Own(grant.raw);
            parcel.payload_room = Some(grant.payload);
            self.work.push([parcel]);
            self.spilled_waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn payload_bytes_of(&self, item: &Item) -> usize {
        match item {
            Item::Tensor { raw_bytes, .. } => self.layout.worst_payload_bytes(*raw_bytes),
            Item::Note(_) => 0,
        }
    }

    /// Writes batches as they come. A thread `dwell-io`.
    pub(super) fn write_chunks(&self) {
        self.sink.write_chunks(|error| self.fail(sink::ACTION, &self.path, error), || self.reorder.poke());
    }
}
