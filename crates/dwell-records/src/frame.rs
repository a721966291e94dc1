//! Frames: what a record is wrapped in on its way through the ring.
//!
//! ```text
//! length u32 (of the whole frame) · kind u16 · 0 u16 · sequence u64 · time ns u64 · payload
//! ```

use crate::DecodeError;
use crate::encode::Take;

/// Bytes before the payload of a frame.
pub const FRAME_HEADER_BYTES: usize = 24;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// First frame of a process: a [`crate::Hello`].
    Hello = 1,
    /// A [`crate::Graph`] that was not seen before.
    Graph = 2,
    /// A [`crate::Step`]: one computation of a graph.
    Step = 3,
    /// A [`crate::WeightPlaced`]: a weight tensor got its memory.
    WeightPlaced = 4,
    /// JSON of an engine event, from engines that report them.
    Engine = 5,
    /// A [`crate::Refusal`]: why nothing is recorded.
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
