//! Frames: what a record is wrapped in on its way through the ring.
//!
//! ```text
//! length u32 (of the whole frame) · kind u16 · 0 u16 · sequence u64 · time ns u64 · payload
//! ```

use crate::encode::Take;
use crate::{DecodeError, Hello, Step};

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
    /// A [`crate::Transferred`]: bytes were touched between graphs.
    Transferred = 8,
}

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        const ALL: [Kind; 7] =
            [Kind::Hello, Kind::Graph, Kind::Step, Kind::WeightPlaced, Kind::Engine, Kind::Refusal, Kind::Transferred];
        ALL.into_iter().find(|kind| *kind as u16 == number)
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

impl Frame<'_> {
    /// The earliest time that the record tells of: a step is recorded when it has ended, and a forked process exists
    /// before it records anything. Never later than the record itself.
    pub fn first_time_ns(&self) -> u64 {
        let begin_ns = match Kind::from_number(self.kind) {
            Some(Kind::Step) => Step::begin_ns_of(self.payload),
            Some(Kind::Hello) => Hello::decode(self.payload).ok().and_then(|hello| hello.fork).map(|fork| fork.time_ns),
            _ => None,
        };
        begin_ns.map_or(self.time_ns, |begin_ns| begin_ns.min(self.time_ns))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RecordBuilder, SmallModel};

    #[test]
    fn a_step_tells_of_the_time_since_it_began_and_a_damaged_one_of_its_own() {
        let model = SmallModel::new();
        let late = Step { begin_ns: 1_000, ..model.step(0, 7, 10..20) };
        let records = RecordBuilder::new()
            .hello(1)
            .step(20, &model.step(0, 7, 10..20))
            .step(21, &late)
            .record(22, Kind::Step, vec![0; 15])
            .record(23, Kind::Hello, vec![0; 3]);
        let times: Vec<u64> = records.frames().map(|frame| frame.first_time_ns()).collect();
        assert_eq!(times, [1, 10, 21, 22, 23]);
    }
}
