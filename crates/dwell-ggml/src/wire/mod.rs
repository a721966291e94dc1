//! The records that cross from the recorded process to the observer.
//!
//! ```text
//! frame:  length u32 (of the whole frame) · kind u16 · 0 u16 · sequence u64 · time ns u64 · payload
//! ```
//!
//! Payloads are little-endian and described by the types here. If one changes, [`WIRE_VERSION`] moves with it: raw
//! streams are kept for as long as runs are.

mod graph;
mod step;

pub use graph::{Buffer, Capture, CaptureForm, Graph, NONE, TensorShape, Unit, ValueType};
pub(crate) use step::StepParts;
pub use step::{IndexRuns, Step, VisibleCells};

use crate::encode::{Put, Take};

/// Version of the payloads, sent in [`Hello`].
pub const WIRE_VERSION: u16 = 1;

/// Bytes before the payload of a frame.
pub const FRAME_HEADER_BYTES: usize = 24;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// First frame of a process: a [`Hello`].
    Hello = 1,
    /// A [`Graph`] that was not seen before.
    Graph = 2,
    /// A [`Step`]: one computation of a graph.
    Step = 3,
    /// A [`WeightPlaced`]: a weight tensor got its memory.
    WeightPlaced = 4,
    /// JSON of an engine event, from engines that report them.
    Engine = 5,
    /// A [`Refusal`]: why nothing is recorded.
    Refusal = 6,
}

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        [Kind::Hello, Kind::Graph, Kind::Step, Kind::WeightPlaced, Kind::Engine, Kind::Refusal]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the record does.
    Short,
    /// An index points outside its list.
    BadIndex,
    /// Bytes are left over.
    Long,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            DecodeError::Short => "the record is shorter than it says",
            DecodeError::BadIndex => "the record points outside itself",
            DecodeError::Long => "the record is longer than it says",
        })
    }
}

impl std::error::Error for DecodeError {}

/// One frame, borrowed from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Number of the kind; unknown ones come from a newer recorder.
    pub kind: u16,
    /// Counts the frames of a process, from 0.
    pub sequence: u64,
    /// When it was recorded.
    pub time_ns: u64,
    /// The record.
    pub payload: &'a [u8],
}

/// The header of a frame with a payload of this length.
pub fn frame_header(kind: Kind, sequence: u64, time_ns: u64, payload_bytes: usize) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&((FRAME_HEADER_BYTES + payload_bytes) as u32).to_le_bytes());
    header[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..24].copy_from_slice(&time_ns.to_le_bytes());
    header
}

/// Takes the first frame off `bytes`. `Ok(None)` means that more bytes are needed.
pub fn split_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, &[u8])>, DecodeError> {
    if bytes.len() < FRAME_HEADER_BYTES {
        return Ok(None);
    }
    let mut header = Take::new(&bytes[..FRAME_HEADER_BYTES]);
    let length = header.u32()? as usize;
    if length < FRAME_HEADER_BYTES {
        return Err(DecodeError::Short);
    }
    if bytes.len() < length {
        return Ok(None);
    }
    let (kind, _) = (header.u16()?, header.u16()?);
    let (sequence, time_ns) = (header.u64()?, header.u64()?);
    let frame = Frame { kind, sequence, time_ns, payload: &bytes[FRAME_HEADER_BYTES..length] };
    Ok(Some((frame, &bytes[length..])))
}

/// Who records, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`WIRE_VERSION`] of the recorder.
    pub wire_version: u16,
    /// Process.
    pub pid: u32,
    /// 0 step, 1 layer, 2 op.
    pub resolution: u8,
    /// How the recorder came into the process: `linked` or `preloaded`.
    pub way_in: String,
    /// Program that is recorded.
    pub program: String,
}

impl Hello {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u16(self.wire_version);
        out.put_u32(self.pid);
        out.put_u8(self.resolution);
        out.put_text(&self.way_in);
        out.put_text(&self.program);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            wire_version: take.u16()?,
            pid: take.u32()?,
            resolution: take.u8()?,
            way_in: take.text()?,
            program: take.text()?,
        })
    }
}

/// Why the recorder leaves a process alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found and what was needed.
    pub reason: String,
}

impl Refusal {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_text(&self.reason);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { reason: Take::new(payload).text()? })
    }
}

/// How a weight tensor came into its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// It lies in a mapping of the model file.
    Mapped = 0,
    /// It was written into a buffer, perhaps in another arrangement.
    Copied = 1,
}

/// A weight tensor got its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightPlaced {
    /// How.
    pub placement: Placement,
    /// First byte.
    pub address: u64,
    /// Bytes in the buffer.
    pub size_bytes: u64,
    /// Name of the tensor.
    pub name: String,
    /// Name of the buffer's kind, such as `CPU_Mapped` or `CPU_REPACK`.
    pub buffer: String,
}

impl WeightPlaced {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.placement as u8);
        out.put_u64(self.address);
        out.put_u64(self.size_bytes);
        out.put_text(&self.name);
        out.put_text(&self.buffer);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            placement: if take.u8()? == Placement::Mapped as u8 { Placement::Mapped } else { Placement::Copied },
            address: take.u64()?,
            size_bytes: take.u64()?,
            name: take.text()?,
            buffer: take.text()?,
        })
    }
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.put_u32(items.len() as u32);
    items.iter().for_each(|item| put(out, item));
}
