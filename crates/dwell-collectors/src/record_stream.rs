//! The raw streams that a ring is emptied into.
//!
//! A worker's ring carries two things: what the engine tells of itself, which every engine does, and what a recorder in
//! the process saw. Each has a stream of its own, so that the first exists and reads the same whether or not anything
//! was traced. The records of both share one numbering, that of the ring.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dwell_records::{Frame, Kind};
use dwell_store::{RawCompression, RawWriter, RecordsBuilder, RunDir, StoreError, records_schema};

use crate::raw_records::{RawRecords, frame_at};
use crate::{ENGINE_STREAM, TENSOR_OPS_STREAM};

/// Who a record is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Engine = 0,
    Recorder = 1,
}

fn origin(kind: u16) -> Origin {
    if kind == Kind::Engine as u16 { Origin::Engine } else { Origin::Recorder }
}

/// The files of the streams of one ring, that of the engine's events first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamPaths(Vec<PathBuf>);

impl StreamPaths {
    /// Those of a run's worker.
    pub(crate) fn of_worker(run: &RunDir) -> Self {
        Self([ENGINE_STREAM, TENSOR_OPS_STREAM].map(|name| run.raw_stream(name)).to_vec())
    }

    /// That of a program into which the recorder was loaded, beside its ring. No engine reports there.
    pub(crate) fn of_program(ring: &Path) -> Self {
        Self(vec![ring.with_extension("arrows")])
    }

    /// One stream with everything.
    pub(crate) fn single(stream: PathBuf) -> Self {
        Self(vec![stream])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

/// The first record of each origin that streams do not have yet. One stream may be ahead of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstNew([u64; 2]);

impl FirstNew {
    /// Reads what streams have. Records of one origin are looked for in all of them: earlier versions wrote the engine's
    /// events into the stream of the recorder.
    pub(crate) fn after(streams: &StreamPaths) -> Result<Self, StoreError> {
        let mut first_new = Self::default();
        for stream in streams.iter() {
            let mut records = RawRecords::open(stream)?;
            while let Some(batch) = records.next_batch() {
                (0..batch.num_rows()).for_each(|row| first_new.note(&frame_at(&batch, row)));
            }
        }
        Ok(first_new)
    }

    fn note(&mut self, frame: &Frame<'_>) {
        let next = &mut self.0[origin(frame.kind) as usize];
        *next = (*next).max(frame.sequence.saturating_add(1));
    }

    /// Whether a record is not there yet.
    pub(crate) fn is_new(&self, frame: &Frame<'_>) -> bool {
        frame.sequence >= self.0[origin(frame.kind) as usize]
    }
}

/// Writes the streams of one ring.
pub(crate) struct RecordStreams {
    streams: Vec<RecordStream>,
}

impl RecordStreams {
    /// Begins the streams of a ring. That of the engine is there at once, the others when their first record comes.
    pub(crate) fn begin(paths: &StreamPaths) -> Result<Self, StoreError> {
        let mut streams = Self::of(paths, false);
        if let Some(first) = streams.streams.first_mut() {
            first.writer()?;
        }
        Ok(streams)
    }

    /// Continues the streams that a killed observer left, each when its first new record comes. A stream without one is
    /// left as it is: a torn end is then a loss, which continuing the stream would hide.
    pub(crate) fn resume(paths: &StreamPaths) -> Self {
        Self::of(paths, true)
    }

    fn of(paths: &StreamPaths, is_resumed: bool) -> Self {
        let stream = |path: &PathBuf| RecordStream {
            path: path.clone(),
            is_resumed,
            writer: None,
            builder: RecordsBuilder::new(),
        };
        Self { streams: paths.0.iter().map(stream).collect() }
    }

    /// Takes in a record.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) {
        let last = self.streams.len() - 1;
        let stream = &mut self.streams[(origin(frame.kind) as usize).min(last)];
        stream.builder.push(frame.sequence, frame.kind, frame.time_ns, frame.payload);
    }

    /// Bytes of records that are not handed to the kernel yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.builder.payload_bytes()).sum()
    }

    /// Hands all records to the kernel. Only when this has succeeded are they safe from a kill of this process.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        for stream in &mut self.streams {
            stream.hand_over()?;
        }
        // Also without new records: those of a flush that failed are still with the writer.
        self.streams.iter_mut().filter_map(|stream| stream.writer.as_mut()).try_for_each(RawWriter::flush)
    }

    /// Ends the streams.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        // Every stream is ended, whatever becomes of the others.
        let writers = self.streams.into_iter().filter_map(|stream| stream.writer);
        let ends: Vec<_> = writers.map(|writer| writer.finish().map(|_| ())).collect();
        ends.into_iter().collect()
    }
}

struct RecordStream {
    path: PathBuf,
    /// Whether the file may be there.
    is_resumed: bool,
    writer: Option<RawWriter>,
    builder: RecordsBuilder,
}

impl RecordStream {
    fn hand_over(&mut self) -> Result<(), StoreError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        self.writer()?;
        let batch = self.builder.finish_batch();
        self.writer()?.write(&batch)
    }

    fn writer(&mut self) -> Result<&mut RawWriter, StoreError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.open()?,
        };
        Ok(self.writer.insert(writer))
    }

    fn open(&self) -> Result<RawWriter, StoreError> {
        if self.is_resumed {
            if RawRecords::open(&self.path)?.has_header() {
                return RawWriter::append(&self.path, RawCompression::None);
            }
            remove_if_there(&self.path)?;
        }
        RawWriter::create(&self.path, records_schema(), RawCompression::None)
    }
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::from_io("replacing an empty raw stream", path, error))
        }
        _ => Ok(()),
    }
}
