//! The rings of recorded processes, emptied into the raw stream of calls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dwell_events::LossKind;
use dwell_metadata::CollectorEnd;
use dwell_ring::allocations::{AllocationReader, EVENTS_PER_CHUNK, Moment, ReadEvent, TickSource};
use dwell_store::{RawWriter, RunDir, StoreError};

use super::streams::{self, CALLS, CallRow, IMAGES, ImageRow, call_batch, image_batch};
use crate::batches::each_batch;
use crate::{CollectError, rings};

/// Rows of a batch of the raw stream.
const BATCH_ROWS: usize = 1 << 16;
/// How often it is found out whether processes have ended, whose rings take space on the disk.
const END_INTERVAL: Duration = Duration::from_millis(500);

/// How often the folder of rings is emptied at the end. A process that outlives the run may make another ring meanwhile; without the
/// folder none can.
const LAST_LOOKS: usize = 20;

/// Rings that are being emptied.
pub(super) struct Rings {
    dir: PathBuf,
    /// Processes of this program are left out: those that are about to become another one, and the one that asks a server.
    own_program: Option<PathBuf>,
    open: Vec<OpenRing>,
    /// Images by process and the begin of their recording.
    known: HashMap<(u32, u64), u32>,
    /// What the stream has already of each chunk of an image.
    written: HashMap<(u32, u64), u64>,
    calls: RawWriter,
    images: RawWriter,
    ends_looked_at: Instant,
}

struct OpenRing {
    reader: AllocationReader,
    /// None if it is left out.
    image: Option<u32>,
    /// What was lost of it when that was last written down.
    lost: (u64, u64),
}

impl Rings {
    pub(super) fn begin(run: &RunDir, own_program: Option<PathBuf>) -> Result<Self, StoreError> {
        Ok(Self {
            dir: rings::allocations_dir(run),
            own_program,
            open: Vec::new(),
            known: HashMap::new(),
            written: HashMap::new(),
            calls: streams::open(run, CALLS)?,
            images: streams::open(run, IMAGES)?,
            ends_looked_at: Instant::now(),
        })
    }

    /// Continues what a killed observer left: what the stream has already is passed over.
    pub(super) fn resume(run: &RunDir, own_program: Option<PathBuf>) -> Result<Self, StoreError> {
        let (mut known, mut written) = (HashMap::new(), HashMap::new());
        each_batch(&streams::path(run, IMAGES), |batch| {
            let images = streams::image_rows(&batch);
            known.extend(images.map(|row| ((row.process.pid, row.process.made_ns), row.image)));
            Ok(())
        })?;
        each_batch(&streams::path(run, CALLS), |batch| {
            for CallRow { image, event } in streams::call_rows(&batch) {
                let (chunk, next) = (event.sequence / EVENTS_PER_CHUNK as u64, event.sequence.saturating_add(1));
                let known: &mut u64 = written.entry((image, chunk)).or_default();
                *known = next.max(*known);
            }
            Ok(())
        })?;
        Ok(Self { known, written, ..Self::begin(run, own_program)? })
    }

    /// Takes in what has come, those rings included that have appeared since the last call.
    pub(super) fn drain(&mut self) -> Result<(), CollectError> {
        // Before anything is read: what one thread did because of another is then read after that.
        let now = Moment::now(TickSource::detect());
        self.find_new()?;
        self.take_in(Some(now))?;
        if self.ends_looked_at.elapsed() >= END_INTERVAL {
            self.ends_looked_at = Instant::now();
            self.drop_ended()?;
        }
        Ok(())
    }

    fn find_new(&mut self) -> Result<(), CollectError> {
        for path in rings::in_dir(&self.dir) {
            if self.open.iter().any(|open| open.reader.path() == path) {
                continue;
            }
            let Ok(reader) = AllocationReader::open(&path) else {
                rings::set_aside(&path)?;
                continue;
            };
            let image = self.image_of(&reader)?;
            self.open.push(OpenRing { reader, image, lost: (0, 0) });
        }
        Ok(())
    }

    /// The number of a ring's image; none if it is left out.
    fn image_of(&mut self, reader: &AllocationReader) -> Result<Option<u32>, StoreError> {
        let process = reader.process();
        let is_known = self.known.contains_key(&(process.pid, process.made_ns));
        if !is_known && self.own_program.as_deref() == Some(Path::new(&process.program)) {
            return Ok(None);
        }
        let next = self.known.len() as u32;
        let image = *self.known.entry((process.pid, process.made_ns)).or_insert(next);
        self.write_image(&ImageRow { image, process: process.clone(), lost: (0, 0) })?;
        Ok(Some(image))
    }

    fn write_image(&mut self, row: &ImageRow) -> Result<(), StoreError> {
        self.images.write(&image_batch(std::slice::from_ref(row)))?;
        self.images.flush()
    }

    /// Reads all rings up to a moment, or all that there is, and gives the room back once it is written down.
    fn take_in(&mut self, until: Option<Moment>) -> Result<(), StoreError> {
        let (mut rows, mut events): (Vec<CallRow>, Vec<ReadEvent>) = (Vec::new(), Vec::new());
        for open in &mut self.open {
            open.reader.read(until, &mut events);
            let Some(image) = open.image else {
                events.clear();
                continue;
            };
            let is_new = |event: &ReadEvent| {
                let chunk = (image, event.sequence / EVENTS_PER_CHUNK as u64);
                self.written.get(&chunk).is_none_or(|next| event.sequence >= *next)
            };
            rows.extend(events.drain(..).filter(is_new).map(|event| CallRow { image, event }));
        }
        rows.sort_unstable_by_key(|row| (row.event.order(), row.image));
        for rows in rows.chunks(BATCH_ROWS) {
            self.calls.write(&call_batch(rows))?;
        }
        if !rows.is_empty() {
            self.calls.flush()?;
        }
        self.open.iter_mut().for_each(|open| open.reader.release());
        self.note_losses()
    }

    fn note_losses(&mut self) -> Result<(), StoreError> {
        let lost = |open: &mut OpenRing| {
            let (lost, image) = (open.reader.lost(), open.image?);
            let process = open.reader.process().clone();
            (std::mem::replace(&mut open.lost, lost) != lost).then_some(ImageRow { image, process, lost })
        };
        let rows: Vec<ImageRow> = self.open.iter_mut().filter_map(lost).collect();
        rows.iter().try_for_each(|row| self.write_image(row))
    }

    fn drop_ended(&mut self) -> Result<(), StoreError> {
        let (ended, running): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.reader.has_ended());
        self.open = ended;
        // Nothing can be added any more, so that everything is read.
        let outcome = self.take_in(None);
        if outcome.is_ok() {
            self.remove_files();
        } else {
            self.open.extend(running);
            return outcome;
        }
        self.open = running;
        Ok(())
    }

    fn remove_files(&self) {
        for open in &self.open {
            // A ring that stays behind is harmless: a later recovery finds nothing new in it.
            let _ = std::fs::remove_file(open.reader.path());
        }
    }

    /// Processes that have a ring.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().map(|open| open.reader.process().pid).chain(self.known.keys().map(|(pid, _)| *pid))
    }

    /// Processes that are recorded and run, as far as is known.
    pub(super) fn running(&self) -> Vec<u32> {
        self.open.iter().filter(|open| open.image.is_some()).map(|open| open.reader.process().pid).collect()
    }

    /// Writes what is left, removes the folder of the rings and ends the streams.
    pub(super) fn finish(mut self) -> Result<CollectorEnd, CollectError> {
        for _ in 0..LAST_LOOKS {
            self.find_new()?;
            self.take_in(None)?;
            self.remove_files();
            if rings::remove_folder(&self.dir) {
                break;
            }
        }
        self.calls.finish()?;
        self.images.finish()?;
        let mut end = CollectorEnd::default();
        let notices = rings::notices_in(&self.dir);
        end.lost(LossKind::LostAllocations, notices, "processes that could not make their ring");
        Ok(end)
    }
}
