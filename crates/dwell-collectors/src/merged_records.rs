//! The records of all processes of a run, in the order in which they were made.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use dwell_records::Frame;
use dwell_store::{RunDir, StoreError};

use crate::raw_records::{RawRecords, frame_at};
use crate::record_stream::StreamPaths;
use crate::rings;

/// Reads what the worker told and, beside it, what programs recorded, each with its number.
///
/// Streams of one ring are merged by the numbers of their records, rings by the time at which what is recorded began: a
/// long graph of one process comes before the short ones that another computed meanwhile, so that at most one graph of
/// each process has to wait for its rows to be the earliest. Number 0 is the worker and the program with the most records,
/// which the worker's events are about.
pub struct MergedRecords {
    rings: Vec<RingRecords>,
    /// Programs that are left out, and the bytes of their streams.
    left_out: (u64, u64),
    has_news: bool,
}

impl MergedRecords {
    /// Opens the streams of a run; those of at most `most` programs are read.
    pub fn open(run: &RunDir, most: usize) -> Result<Self, StoreError> {
        let programs = rings::program_streams(run);
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let mut by_size: Vec<&PathBuf> = programs.iter().collect();
        by_size.sort_by_key(|path| std::cmp::Reverse(size(path)));
        let (read, left_out) = by_size.split_at(by_size.len().min(most));
        let mut rings = vec![RingRecords::open(&StreamPaths::of_worker(run), 0)?];
        for (process, path) in (0..).zip(read) {
            rings.push(RingRecords::open(&StreamPaths::single((*path).clone()), process)?);
        }
        let left_out = (left_out.len() as u64, left_out.iter().map(|path| size(path)).sum());
        Ok(Self { rings, left_out, has_news: false })
    }

    /// The record that is left whose subject began first, with the number of its process.
    pub fn next_frame(&mut self) -> Option<(u8, Frame<'_>)> {
        self.fill();
        let earliest = self.rings.iter_mut().filter_map(|ring| Some((ring.next_time_ns()?, ring)));
        let (_, ring) = earliest.min_by_key(|(time_ns, _)| *time_ns)?;
        Some((ring.process, ring.take()?))
    }

    /// The earliest time that the next record of any ring tells of; none if no record is left. If no process computes in
    /// several threads at once, no record that is left tells of an earlier one.
    pub fn earliest_ns(&mut self) -> Option<u64> {
        self.fill();
        self.rings.iter_mut().filter_map(RingRecords::next_time_ns).min()
    }

    fn fill(&mut self) {
        for ring in &mut self.rings {
            self.has_news |= ring.fill();
        }
    }

    /// What part of the streams was read, if that has changed since it was last asked.
    pub fn news_of_share_read(&mut self) -> Option<f64> {
        let streams = || self.rings.iter().flat_map(|ring| &ring.streams).map(|stream| &stream.records);
        let (read_bytes, file_bytes) =
            streams().fold((0, 0), |(read, all), records| (read + records.read_bytes(), all + records.file_bytes()));
        std::mem::take(&mut self.has_news).then(|| read_bytes as f64 / file_bytes.max(1) as f64)
    }

    /// Records that are missing from the streams.
    pub fn missing(&self) -> u64 {
        self.rings.iter().map(RingRecords::missing).sum()
    }

    /// Programs that are left out, and the bytes of their records.
    pub fn left_out(&self) -> (u64, u64) {
        self.left_out
    }
}

/// The records of one ring, from all of its streams.
struct RingRecords {
    process: u8,
    streams: Vec<Stream>,
    next_sequence: u64,
    /// Records that no stream has.
    missing: u64,
}

impl RingRecords {
    fn open(paths: &StreamPaths, process: u8) -> Result<Self, StoreError> {
        let streams = paths.iter().map(Stream::open).collect::<Result<_, _>>()?;
        Ok(Self { process, streams, next_sequence: 0, missing: 0 })
    }

    /// Reads on where nothing is left of a batch; says whether it did.
    fn fill(&mut self) -> bool {
        self.streams.iter_mut().fold(false, |has_read, stream| stream.fill() | has_read)
    }

    fn next_stream(&mut self) -> Option<&mut Stream> {
        let streams = self.streams.iter_mut().filter_map(|stream| Some((stream.peek()?.sequence, stream)));
        streams.min_by_key(|(sequence, _)| *sequence).map(|(_, stream)| stream)
    }

    fn next_time_ns(&mut self) -> Option<u64> {
        Some(self.next_stream()?.peek()?.first_time_ns())
    }

    fn take(&mut self) -> Option<Frame<'_>> {
        let sequence = self.next_stream()?.peek()?.sequence;
        // Records are numbered without gaps, so a gap is a loss.
        self.missing = self.missing.saturating_add(sequence.saturating_sub(self.next_sequence));
        self.next_sequence = sequence.saturating_add(1);
        self.next_stream()?.take()
    }

    /// Records that are missing. How many a torn end held is not known; it counts as one.
    fn missing(&self) -> u64 {
        let torn = self.streams.iter().filter(|stream| stream.records.has_torn_end()).count();
        self.missing.saturating_add(torn as u64)
    }
}

struct Stream {
    records: RawRecords,
    /// The batch that is being read; none at the end of the stream.
    batch: Option<RecordBatch>,
    next_row: usize,
}

impl Stream {
    fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { records: RawRecords::open(path)?, batch: None, next_row: 0 })
    }

    fn fill(&mut self) -> bool {
        let mut has_read = false;
        while self.batch.as_ref().is_none_or(|batch| self.next_row >= batch.num_rows()) {
            (self.batch, self.next_row) = (self.records.next_batch(), 0);
            if self.batch.is_none() {
                break;
            }
            has_read = true;
        }
        has_read
    }

    fn peek(&self) -> Option<Frame<'_>> {
        self.batch.as_ref().map(|batch| frame_at(batch, self.next_row))
    }

    fn take(&mut self) -> Option<Frame<'_>> {
        let row = self.next_row;
        self.next_row += 1;
        self.batch.as_ref().map(|batch| frame_at(batch, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_records::testing::{RecordBuilder, SmallModel};
    use dwell_records::{Fork, Hello, Kind, WIRE_VERSION};
    use dwell_store::{RawCompression, RawWriter, RecordsBuilder, records_schema};

    /// A stream with one batch for each of these lists of records.
    fn stream(dir: &Path, batches: &[&[u64]]) -> PathBuf {
        write(dir.join("records.arrows"), batches)
    }

    /// A stream of a program with the records of a process.
    fn program(run: &RunDir, pid: u32, records: &RecordBuilder) {
        let path = rings::programs_dir(run).join(format!("{pid}.arrows"));
        let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
        for frame in records.frames() {
            let mut builder = RecordsBuilder::new();
            builder.push(frame.sequence, frame.kind, frame.time_ns, frame.payload);
            writer.write(&builder.finish_batch()).unwrap();
        }
        writer.finish().unwrap();
    }

    fn write(path: PathBuf, batches: &[&[u64]]) -> PathBuf {
        let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
        for batch in batches {
            let mut builder = RecordsBuilder::new();
            batch.iter().for_each(|&sequence| builder.push(sequence, 1, 2, b"payload"));
            writer.write(&builder.finish_batch()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> (u64, u64) {
        let mut ring = RingRecords::open(&StreamPaths::single(path.to_owned()), 0).unwrap();
        read_on(&mut ring);
        (ring.next_sequence, ring.missing())
    }

    fn read_on(ring: &mut RingRecords) -> Vec<u64> {
        let mut sequences = Vec::new();
        loop {
            ring.fill();
            match ring.take() {
                Some(frame) => sequences.push(frame.sequence),
                None => return sequences,
            }
        }
    }

    #[test]
    fn a_whole_stream_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[0, 1], &[2]])), (3, 0));
    }

    #[test]
    fn a_gap_between_batches_is_counted_by_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[0, 1], &[5, 6]])), (7, 3));
    }

    #[test]
    fn a_beginning_that_is_gone_is_counted_by_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[4]])), (5, 4));
    }

    #[test]
    fn a_torn_end_counts_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = stream(dir.path(), &[&[0, 1], &[2]]);
        let whole_bytes = std::fs::metadata(&path).unwrap().len();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(whole_bytes - 40).unwrap();
        assert_eq!(read(&path), (2, 1));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(read(&path), (0, 1));
    }

    #[test]
    fn a_stream_that_was_never_begun_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.arrows");
        assert_eq!(read(&path), (0, 0));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(read(&path), (0, 0));
    }

    #[test]
    fn two_streams_of_a_ring_are_one_sequence_and_gaps_are_those_of_both() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path(), "model", "run").unwrap();
        write(run.raw_stream(crate::ENGINE_STREAM), &[&[1, 2], &[5], &[9]]);
        write(run.raw_stream(crate::TENSOR_OPS_STREAM), &[&[0, 3], &[6]]);
        let mut ring = RingRecords::open(&StreamPaths::of_worker(&run), 0).unwrap();
        assert_eq!(read_on(&mut ring), [0, 1, 2, 3, 5, 6, 9]);
        assert_eq!((ring.next_sequence, ring.missing()), (10, 3), "4, 7 and 8 are in neither");
    }

    fn hello(pid: u32, fork: Option<Fork>) -> Vec<u8> {
        let (way_in, program) = ("preloaded".to_owned(), String::new());
        Hello { wire_version: WIRE_VERSION, pid, resolution: 2, way_in, program, fork }.encode()
    }

    #[test]
    fn records_of_two_processes_come_by_the_time_at_which_their_subject_began() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path(), "model", "run").unwrap();
        rings::make_programs_dir(&run).unwrap();
        let model = SmallModel::new();
        // A long graph beside two short ones; it is recorded last.
        let long = RecordBuilder::new().record(10, Kind::Hello, hello(7, None)).step(900, &model.step(0, 7, 100..900));
        let short = RecordBuilder::new()
            .record(50, Kind::Hello, hello(8, Some(Fork { parent_pid: 7, time_ns: 20 })))
            .graph(150, &model.graph)
            .step(300, &model.step(0, 7, 200..300))
            .step(500, &model.step(1, 7, 400..500));
        program(&run, 7, &long);
        program(&run, 8, &short);
        let mut merged = MergedRecords::open(&run, 2).unwrap();
        let mut order = Vec::new();
        while let Some((_, frame)) = merged.next_frame() {
            let first_ns = frame.first_time_ns();
            order.push((first_ns, merged.earliest_ns()));
        }
        let times = [10, 20, 100, 150, 200, 400];
        let expected: Vec<(u64, Option<u64>)> =
            times.into_iter().zip(times[1..].iter().copied().map(Some).chain([None])).collect();
        assert_eq!(order, expected);
    }
}
