//! Writes tracks, slices and counters.

use std::io::{self, Write};

use prost::Message;

use super::protocol::{
    CounterDescriptor, DebugAnnotation, ProcessDescriptor, Trace, TracePacket, TrackDescriptor, TrackEvent,
};

/// All packets come from one writer.
const SEQUENCE: u32 = 1;
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const COUNTER: i32 = 4;
const UNIT_BYTES: i32 = 3;
const EXPLICIT_ORDER: i32 = 3;

/// A track that events can be put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track(u64);

/// What a counter counts.
#[derive(Clone, Copy)]
pub(super) enum CounterUnit<'a> {
    Bytes,
    Named(&'a str),
}

/// One slice.
pub(super) struct Slice<'a> {
    pub(super) name: &'a str,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) numbers: &'a [(&'static str, u64)],
    pub(super) texts: &'a [(&'static str, &'a str)],
    /// Slices with the same number are joined by arrows, in the order of time.
    pub(super) flow: Option<u64>,
}

/// Writes a trace packet by packet, so that its length does not matter.
pub(super) struct TrackWriter<W> {
    output: W,
    process: u64,
    last_track: u64,
    buffer: Vec<u8>,
}

impl<W: Write> TrackWriter<W> {
    /// Begins with the process that all tracks belong to.
    pub(super) fn new(output: W, process_name: &str) -> io::Result<Self> {
        let mut writer = Self { output, process: 1, last_track: 1, buffer: Vec::new() };
        writer.describe(TrackDescriptor {
            uuid: Some(1),
            process: Some(ProcessDescriptor { pid: Some(1), process_name: Some(process_name.to_owned()) }),
            child_ordering: Some(EXPLICIT_ORDER),
            ..TrackDescriptor::default()
        })?;
        Ok(writer)
    }

    /// A track of slices, below those before it.
    pub(super) fn slices(&mut self, name: &str) -> io::Result<Track> {
        self.track(name, None)
    }

    /// A track of a counter, below those before it.
    pub(super) fn counter(&mut self, name: &str, unit: CounterUnit<'_>) -> io::Result<Track> {
        let counter = match unit {
            CounterUnit::Bytes => CounterDescriptor { unit: Some(UNIT_BYTES), unit_name: None },
            CounterUnit::Named(name) => CounterDescriptor { unit: None, unit_name: Some(name.to_owned()) },
        };
        self.track(name, Some(counter))
    }

    fn track(&mut self, name: &str, counter: Option<CounterDescriptor>) -> io::Result<Track> {
        self.last_track += 1;
        self.describe(TrackDescriptor {
            uuid: Some(self.last_track),
            name: Some(name.to_owned()),
            parent_uuid: Some(self.process),
            sibling_order_rank: i32::try_from(self.last_track).ok(),
            counter,
            ..TrackDescriptor::default()
        })?;
        Ok(Track(self.last_track))
    }

    /// A slice. Those of a track have to lie beside or inside each other.
    pub(super) fn slice(&mut self, track: Track, slice: &Slice<'_>) -> io::Result<()> {
        let number = |&(name, value): &(&str, u64)| DebugAnnotation {
            name: Some(name.to_owned()),
            uint_value: Some(value),
            string_value: None,
        };
        let text = |&(name, value): &(&str, &str)| DebugAnnotation {
            name: Some(name.to_owned()),
            uint_value: None,
            string_value: Some(value.to_owned()),
        };
        let begin = TrackEvent {
            debug_annotations: slice.numbers.iter().map(number).chain(slice.texts.iter().map(text)).collect(),
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(track.0),
            name: Some(slice.name.to_owned()),
            flow_ids: slice.flow.into_iter().collect(),
            ..TrackEvent::default()
        };
        let end = TrackEvent { r#type: Some(SLICE_END), track_uuid: Some(track.0), ..TrackEvent::default() };
        self.event(slice.begin_ns, begin)?;
        self.event(slice.end_ns.max(slice.begin_ns), end)
    }

    /// The value of a counter from a moment on.
    pub(super) fn count(&mut self, track: Track, now_ns: u64, value: u64) -> io::Result<()> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.event(now_ns, counter_event(track, Some(value), None))
    }

    /// The same of a value that is no whole number.
    pub(super) fn count_share(&mut self, track: Track, now_ns: u64, value: f64) -> io::Result<()> {
        self.event(now_ns, counter_event(track, None, Some(value)))
    }

    fn event(&mut self, timestamp_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.write(TracePacket { timestamp: Some(timestamp_ns), track_event: Some(event), ..TracePacket::default() })
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        self.buffer.clear();
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        Trace { packet: vec![packet] }.encode(&mut self.buffer).map_err(io::Error::other)?;
        self.output.write_all(&self.buffer)
    }
}

fn counter_event(track: Track, counter_value: Option<i64>, double_counter_value: Option<f64>) -> TrackEvent {
    TrackEvent {
        r#type: Some(COUNTER),
        track_uuid: Some(track.0),
        counter_value,
        double_counter_value,
        ..TrackEvent::default()
    }
}
