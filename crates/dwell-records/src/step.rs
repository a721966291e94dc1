//! One computation of a graph, and the values in it that decide which bytes are touched.

use crate::DecodeError;
use crate::encode::{Put, Take, put_list, put_runs};

/// One computation of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The graph.
    pub graph: u32,
    /// Thread that computed (its helpers are not told apart).
    pub thread: u32,
    /// When the computation began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What ggml returned; 0 is success.
    pub status: i32,
    /// Nodes after which ggml called back.
    pub nodes_done: u32,
    /// Times after the stamped units; as many as [`crate::Graph::stamped_units`] if the calls could be matched to units,
    /// otherwise none.
    pub times_ns: Vec<u64>,
    /// Values of the captured operands, in the order of [`crate::Graph::captures`]; empty for one that was not reached.
    pub captures: Vec<Vec<u8>>,
    /// The work buffers that its kernels had, in order of the units. There are none from recorders of version 2 and before,
    /// nor if ggml's processor backend computed nothing of it.
    pub work: Vec<WorkBuffer>,
}

/// Memory that a backend lends to the kernels of a graph, outside of any tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkBuffer {
    /// First unit whose kernel had it. A graph may be computed in parts, with another buffer for each.
    pub first_unit: u32,
    /// First byte.
    pub address: u64,
    /// Bytes that the kernels may use.
    pub size_bytes: u64,
    /// Threads that compute.
    pub threads: u32,
}

impl WorkBuffer {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.put_u32(self.first_unit);
        out.put_u64(self.address);
        out.put_u64(self.size_bytes);
        out.put_u32(self.threads);
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, DecodeError> {
        Ok(Self { first_unit: take.u32()?, address: take.u64()?, size_bytes: take.u64()?, threads: take.u32()? })
    }
}

impl Step {
    /// Writes a step from its parts without building one: this runs once per token in the recorded process.
    pub fn encode_into(out: &mut Vec<u8>, step: &StepParts<'_>) {
        out.put_u32(step.graph);
        out.put_u32(step.thread);
        out.put_u64(step.begin_ns);
        out.put_u64(step.end_ns);
        out.put_u32(step.status as u32);
        out.put_u32(step.nodes_done);
        put_list(out, step.times_ns, |out, &time_ns| out.put_u64(time_ns));
        out.put_u32(step.capture_ends.len() as u32);
        let mut begin = 0;
        for &end in step.capture_ends {
            out.put_u32((end - begin) as u32);
            out.extend_from_slice(&step.captured[begin..end]);
            begin = end;
        }
        put_list(out, step.work, |out, work| work.encode_into(out));
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut capture_ends = Vec::with_capacity(self.captures.len());
        let captured = self.captures.iter().fold(Vec::new(), |mut captured, capture| {
            captured.extend_from_slice(capture);
            capture_ends.push(captured.len());
            captured
        });
        let mut out = Vec::new();
        let parts = StepParts {
            graph: self.graph,
            thread: self.thread,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            status: self.status,
            nodes_done: self.nodes_done,
            times_ns: &self.times_ns,
            captured: &captured,
            capture_ends: &capture_ends,
            work: &self.work,
        };
        Self::encode_into(&mut out, &parts);
        out
    }

    /// When the computation of a payload began, without reading the rest.
    pub(crate) fn begin_ns_of(payload: &[u8]) -> Option<u64> {
        let mut take = Take::new(payload);
        take.bytes(8).and_then(|_graph_and_thread| take.u64()).ok()
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        let mut step = Self {
            graph: take.u32()?,
            thread: take.u32()?,
            begin_ns: take.u64()?,
            end_ns: take.u64()?,
            status: take.u32()? as i32,
            nodes_done: take.u32()?,
            times_ns: take.list(8, Take::u64)?,
            captures: take.list(4, |take| {
                let length = take.u32()? as usize;
                Ok(take.bytes(length)?.to_vec())
            })?,
            work: Vec::new(),
        };
        if !take.is_empty() {
            step.work = take.list(24, WorkBuffer::decode)?;
        }
        if take.is_empty() { Ok(step) } else { Err(DecodeError::Long) }
    }
}

/// What a step is written from; the fields are those of [`Step`].
#[allow(missing_docs)] // Documented there.
pub struct StepParts<'a> {
    pub graph: u32,
    pub thread: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub status: i32,
    pub nodes_done: u32,
    pub times_ns: &'a [u64],
    /// Captured values, one after the other.
    pub captured: &'a [u8],
    /// Where each of them ends.
    pub capture_ends: &'a [usize],
    pub work: &'a [WorkBuffer],
}

/// Captured integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexRuns {
    /// Runs of start, stride and count.
    pub runs: Vec<(i64, i64, u32)>,
}

impl IndexRuns {
    /// Integers that an operand can have: far above the tokens of any batch times the experts that each asks.
    pub const MOST_VALUES: usize = 1 << 24;

    /// These integers as a captured operand.
    pub fn encode(values: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        Self::encode_into(&mut out, values.iter().copied());
        out
    }

    /// Appends integers as a captured operand.
    pub fn encode_into(out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
        put_runs(out, values);
    }

    /// Reads a captured operand.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(bytes);
        let indices = Self { runs: take.list(20, |take| Ok((take.i64()?, take.i64()?, take.u32()?)))? };
        // A few damaged bytes could else ask for more memory than there is.
        if indices.len() > Self::MOST_VALUES { Err(DecodeError::Value) } else { Ok(indices) }
    }

    /// The integers, in their order.
    pub fn values(&self) -> impl Iterator<Item = i64> + '_ {
        self.runs.iter().flat_map(|&(start, stride, count)| {
            (0..i64::from(count)).map(move |step| start.wrapping_add(stride.wrapping_mul(step)))
        })
    }

    /// How many integers there are.
    pub fn len(&self) -> usize {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.2 as usize))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Captured mask: which cells any token of the step may see, for each stream of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleCells {
    /// Cells per stream.
    pub cells: u32,
    /// One bit per cell, 64 to a word, stream after stream.
    pub words: Vec<u64>,
}

impl VisibleCells {
    /// The mask as a captured operand.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Self::encode_header_into(&mut out, self.cells as usize, self.streams());
        self.words.iter().for_each(|&word| out.put_u64(word));
        out
    }

    /// Appends the beginning of a captured mask. The words of all streams are to follow, [`VisibleCells::words`] in
    /// little-endian order.
    pub fn encode_header_into(out: &mut Vec<u8>, cells: usize, streams: usize) {
        out.put_u32(cells as u32);
        out.put_u32((cells.div_ceil(64) * streams) as u32);
    }

    /// Reads a captured operand.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(bytes);
        let cells = take.u32()?;
        let words = take.list(8, Take::u64)?;
        let words_per_stream = (cells as usize).div_ceil(64);
        if words_per_stream == 0 || !words.len().is_multiple_of(words_per_stream) {
            return Err(DecodeError::BadIndex);
        }
        Ok(Self { cells, words })
    }

    /// Streams in the mask.
    pub fn streams(&self) -> usize {
        self.words.len() / (self.cells as usize).div_ceil(64).max(1)
    }

    /// Whether a cell of a stream can be seen.
    pub fn is_visible(&self, stream: usize, cell: usize) -> bool {
        let words_per_stream = (self.cells as usize).div_ceil(64);
        self.words.get(stream * words_per_stream + cell / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn operands_of_absurd_length_are_refused() {
        let mut bytes = IndexRuns::encode(&[7, 8, 9]);
        assert_eq!(IndexRuns::decode(&bytes).unwrap().len(), 3);
        let count = bytes.len() - 4;
        bytes[count..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(IndexRuns::decode(&bytes), Err(DecodeError::Value));
    }
}
