//! perf.data, the recordings of `perf record` and `perf mem record`, read without perf.
//!
//! Files and pipes (`perf record -o -`), with compressed records (`-z`). Samples are decoded in full because the crates
//! for it drop what memory samples are about: weight and data source. One pass, at most a few MiB for the recording and
//! one round of records (see [`order`]).
//!
//! Not read: recordings of the other byte order; traces by other units (Arm SPE, Intel PT), which are counted; directories
//! (`perf record --threads`), which the caller cannot give as one reader.

mod address_space;
mod attr;
mod events;
mod fields;
mod header;
mod input;
mod kind;
mod order;
mod recording;
mod records;
mod sample;
mod sample_type;

use std::io::{Read, Seek, SeekFrom};

pub use address_space::{AddressSpaces, FileId, Place};
pub use recording::{ClockData, Counts, Event, Recording, RecordingClock};
pub use records::{BuildId, Comm, Mapping, Record, Relation};
pub use sample::{CpuMode, ProcessThread, Sample, Weight};

use crate::error::{DecodeError, DecodeReason};
use events::{EventIndex, event_of_record};
use fields::{Fields, text_until_zero};
use header::Head;
use input::{Input, RawRecord};
use order::{Order, Timed};

/// A reader of one recording.
pub struct PerfData<R> {
    input: Input<R>,
    session: Session,
    order: Order,
    state: State,
}

/// Whether there is more to read.
enum State {
    Reading,
    Failed(DecodeError),
    Ended,
}

/// What is known about the recording so far.
#[derive(Default)]
struct Session {
    recording: Recording,
    index: EventIndex,
}

/// What a record is to the reader.
enum Step {
    Record(Timed),
    RoundEnded,
    /// Bytes that are no record follow.
    SkipBytes(u64),
    Nothing,
}

impl<R: Read + Seek> PerfData<R> {
    /// Reads a file, also one that a pipe was written to. [`Recording`] is known from the start, except for the counts.
    pub fn open(mut reader: R) -> Result<Self, DecodeError> {
        let file = match header::read_head(&mut reader)? {
            Head::Pipe => return Ok(Self::of_pipe(reader)),
            Head::File(file) => file,
        };
        let mut session = Session::default();
        for event in file.read_events(&mut reader)? {
            session.add_event(event, file.attrs_offset())?;
        }
        file.read_features(&mut reader, &mut session.recording)?;
        session.recording.is_unfinished = file.data.size == 0;
        let seek = reader.seek(SeekFrom::Start(file.data.offset));
        seek.map_err(|error| DecodeError::new(file.data.offset, DecodeReason::Read(error)))?;
        let length = (file.data.size > 0).then_some(file.data.size);
        Ok(Self::new(Input::new(reader, file.data.offset, length), session))
    }
}

impl<R: Read> PerfData<R> {
    /// Reads what comes out of a pipe (`perf record -o -`).
    pub fn stream(mut reader: R) -> Result<Self, DecodeError> {
        match header::read_head(&mut reader)? {
            Head::Pipe => Ok(Self::of_pipe(reader)),
            Head::File(_) => {
                let found = "a perf.data file, which cannot be read from a pipe: its parts are not in order".to_owned();
                Err(DecodeError::new(0, DecodeReason::Unsupported(found)))
            }
        }
    }

    fn of_pipe(reader: R) -> Self {
        Self::new(Input::new(reader, 16, None), Session::default())
    }

    fn new(input: Input<R>, session: Session) -> Self {
        Self { input, session, order: Order::default(), state: State::Reading }
    }

    /// What the recording says about itself, and counts of what was read so far.
    pub fn recording(&self) -> &Recording {
        &self.session.recording
    }

    /// The next record in the order of time; none at the end. If the recording cannot be read further, every record before
    /// that comes first, then the error, then none.
    pub fn next_record(&mut self) -> Result<Option<&Record>, DecodeError> {
        while !self.order.is_ready() {
            self.session.recording.counts.late_records = self.order.late_records;
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Reading => self.read_round(),
                State::Failed(error) => return Err(error),
                State::Ended => return Ok(None),
            }
        }
        Ok(self.order.pop())
    }

    /// Reads until records are ready, or to the end.
    fn read_round(&mut self) {
        self.state = match self.read_until_ready() {
            Ok(true) => State::Reading,
            Ok(false) => State::Ended,
            Err(error) => State::Failed(error),
        };
        if !matches!(self.state, State::Reading) {
            self.order.end();
        }
    }

    fn read_until_ready(&mut self) -> Result<bool, DecodeError> {
        while !self.order.is_ready() {
            let Some(record) = self.input.next()? else { return Ok(false) };
            match self.session.take(&record)? {
                Step::Record(record) => self.order.push(record),
                Step::RoundEnded => self.order.end_round(),
                Step::SkipBytes(count) => self.input.skip(count)?,
                Step::Nothing => {}
            }
        }
        Ok(true)
    }
}

impl Session {
    fn take(&mut self, record: &RawRecord<'_>) -> Result<Step, DecodeError> {
        let body = record.body;
        let taken = match record.kind {
            kind::SAMPLE => self.sample(record.misc, body),
            kind::FINISHED_ROUND => return Ok(Step::RoundEnded),
            kind::HEADER_ATTR => {
                let event = event_of_record(record.offset, body)?;
                return self.add_event(event, record.offset).map(|()| Step::Nothing);
            }
            kind::MMAP => self.other(body, |body| records::mmap(body).map(boxed_mapping)),
            kind::MMAP2 => self.other(body, |body| records::mmap2(record.misc, body).map(boxed_mapping)),
            kind::COMM => self.other(body, |body| Some(Record::Comm(Box::new(records::comm(record.misc, body)?)))),
            kind::FORK => self.other(body, |body| records::relation(body).map(Record::Fork)),
            kind::EXIT => self.other(body, |body| records::relation(body).map(Record::Exit)),
            _ => self.count(record),
        };
        Ok(taken.unwrap_or_else(|| self.short_record(record.offset)))
    }

    fn short_record(&mut self, offset: u64) -> Step {
        let counts = &mut self.recording.counts;
        counts.short_records += 1;
        counts.first_short_record.get_or_insert(offset);
        Step::Nothing
    }

    #[inline]
    fn sample(&mut self, misc: u16, body: &[u8]) -> Option<Step> {
        let index = self.index.of_sample(body);
        let Some((index, event)) = index.and_then(|index| Some((index, self.recording.events.get(index as usize)?)))
        else {
            self.recording.counts.samples_of_unknown_events += 1;
            return Some(Step::Nothing);
        };
        let sample = sample::parse(index, &event.attr, misc, body)?;
        self.recording.counts.samples += 1;
        Some(Step::Record((sample.time_ns(), Record::Sample(sample))))
    }

    /// A record that says in its end when it was.
    fn other(&self, body: &[u8], parse: impl Fn(&[u8]) -> Option<Record>) -> Option<Step> {
        let attr = self.index.of_other(&self.recording.events, body);
        let trailer_bytes = attr.map_or(0, |attr| attr.trailer_bytes());
        let (body, trailer) = body.split_at_checked(body.len().checked_sub(trailer_bytes)?)?;
        Some(Step::Record((attr.and_then(|attr| attr.trailer_time(trailer)), parse(body)?)))
    }

    fn add_event(&mut self, event: Event, offset: u64) -> Result<(), DecodeError> {
        self.index.add(&event, offset)?;
        self.recording.events.push(event);
        Ok(())
    }

    /// Records that are counted or say something about the recording.
    fn count(&mut self, record: &RawRecord<'_>) -> Option<Step> {
        let mut fields = Fields(record.body);
        let counts = &mut self.recording.counts;
        match record.kind {
            kind::LOST => counts.lost_records = counts.lost_records.saturating_add(fields.u64().and(fields.u64())?),
            kind::LOST_SAMPLES => counts.lost_samples = counts.lost_samples.saturating_add(fields.u64()?),
            kind::THROTTLE => counts.throttled += 1,
            kind::HEADER_BUILD_ID => self.recording.take_build_id(record.misc, record.body),
            kind::HEADER_FEATURE => self.recording.take_feature(fields.u64()?, fields.0),
            kind::EVENT_UPDATE => self.rename_event(fields)?,
            // Both state how much follows that is no record; perf pads the first to 8 bytes.
            kind::HEADER_TRACING_DATA => return Some(Step::SkipBytes(u64::from(fields.u32()?).next_multiple_of(8))),
            kind::AUXTRACE => {
                let size = fields.u64()?;
                counts.auxtrace_bytes = counts.auxtrace_bytes.saturating_add(size);
                return Some(Step::SkipBytes(size));
            }
            _ => {}
        }
        Some(Step::Nothing)
    }

    fn rename_event(&mut self, mut fields: Fields<'_>) -> Option<()> {
        const NAME: u64 = 2;
        let (what, id) = (fields.u64()?, fields.u64()?);
        let index = self.index.of_id(id).filter(|_| what == NAME);
        if let Some(event) = index.and_then(|index| self.recording.events.get_mut(index)) {
            event.name = text_until_zero(fields.0);
        }
        Some(())
    }
}

fn boxed_mapping(mapping: Mapping) -> Record {
    Record::Mapping(Box::new(mapping))
}
