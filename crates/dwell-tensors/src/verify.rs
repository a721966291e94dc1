//! Whether a stream holds what was written into it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use crate::container::PAGE_BYTES;
use crate::{FileEnd, TensorFile, TensorsError};

/// One thing that is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Number of the packet, where it is one.
    pub packet: Option<u64>,
    /// Name of its tensor.
    pub name: Option<String>,
    /// What was found.
    pub reason: String,
}

impl Problem {
    fn of_stream(reason: String) -> Self {
        Self { packet: None, name: None, reason }
    }
}

/// What [`verify`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Whether the stream has its end and its index.
    pub is_finished: bool,
    /// Batches that could be read.
    pub batches: u64,
    /// Tensors.
    pub packets: u64,
    /// Token boundaries.
    pub tokens: u64,
    /// Bytes of the elements of all tensors.
    pub raw_bytes: u64,
    /// Bytes of them as they are stored.
    pub stored_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Tensors that were dropped, as the stream tells.
    pub dropped_packets: u64,
    /// Packet numbers that no tensor of the stream has.
    pub missing_packets: u64,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

impl VerifyReport {
    /// Whether the stream is finished and holds what was written.
    pub fn is_sound(&self) -> bool {
        self.is_finished && self.problems.is_empty()
    }
}

/// Checks every batch, the checksum of every payload, that it can be decoded, and that every packet number is
/// there or told to be dropped.
pub fn verify(path: &Path) -> Result<VerifyReport, TensorsError> {
    let file = TensorFile::open(path)?;
    let scanned = TensorFile::open_scanned(path)?;
    let mut problems: Vec<Problem> = end_problem(&file, &scanned).into_iter().collect();
    problems.extend(padding_problems(&file)?);
    problems.extend(packet_problems(&file));
    let dropped_packets = file.index().dropped_packets();
    let (missing_packets, repeated_packets) = file.index().missing_and_repeated_packets();
    if missing_packets != dropped_packets {
        problems.push(Problem::of_stream(format!(
            "{missing_packets} packet numbers are missing, and {dropped_packets} were told to be dropped"
        )));
    }
    if repeated_packets > 0 {
        problems.push(Problem::of_stream(format!("{repeated_packets} tensors have the packet number of another")));
    }
    Ok(VerifyReport {
        is_finished: file.is_finished(),
        batches: file.batches().len() as u64,
        packets: file.packets().len() as u64,
        tokens: file.tokens().len() as u64,
        raw_bytes: file.packets().iter().fold(0, |sum, entry| sum.saturating_add(entry.raw_bytes)),
        stored_bytes: file.packets().iter().fold(0, |sum, entry| sum.saturating_add(entry.payload_bytes)),
        file_bytes: file.file_bytes(),
        dropped_packets,
        missing_packets,
        problems,
    })
}

/// An end that is missing, or an index that is not that of the batches.
fn end_problem(file: &TensorFile, scanned: &TensorFile) -> Option<Problem> {
    let reason = match (file.end(), scanned.end()) {
        (FileEnd::Unfinished { whole_bytes, reason }, _) => format!("at byte {whole_bytes}: {reason}"),
        (FileEnd::Finished, FileEnd::Unfinished { whole_bytes, reason }) if !scanned.is_marked() => {
            format!("at byte {whole_bytes}: {reason}")
        }
        _ if !file.index().is_same(scanned.index()) => "an index that does not fit the batches".to_owned(),
        _ => return None,
    };
    Some(Problem::of_stream(reason))
}

/// Padding holds nothing, but damage to it is damage to the file.
fn padding_problems(file: &TensorFile) -> Result<Vec<Problem>, TensorsError> {
    let mut problems = Vec::new();
    for span in file.batches() {
        let start = span.offset + span.used_bytes;
        let length = (span.bytes - span.used_bytes).min(PAGE_BYTES as u64) as usize;
        let bytes = file.bytes_at(start, length)?;
        if bytes.iter().any(|byte| *byte != 0) {
            problems.push(Problem::of_stream(format!("at byte {start}: padding that is not zero")));
        }
    }
    Ok(problems)
}

/// Reads and decodes every packet, on all cores.
fn packet_problems(file: &TensorFile) -> Vec<Problem> {
    let found = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let check = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = file.packets().get(place) else { return };
            let Err(error) = file.read_elements(place) else { continue };
            let reason = match error {
                TensorsError::DamagedPacket { reason, .. } => reason,
                other => other.to_string(),
            };
            let problem = Problem { packet: Some(entry.packet), name: Some(file.name(entry).to_owned()), reason };
            found.lock().unwrap_or_else(PoisonError::into_inner).push((place, problem));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(check);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, problem)| problem).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use dwell_codec::{Codec, DType};

    use super::*;
    use crate::testing::{at, stream_bytes, tensor};

    #[test]
    fn a_number_that_stands_twice_does_not_hide_one_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let batch = [0, 1, 1, 3].map(|packet| tensor(packet, "x", Codec::None, DType::U8, &[1], &[7])).to_vec();
        let report = verify(&at(&dir, &stream_bytes(&[batch]).0)).unwrap();
        assert_eq!((report.missing_packets, report.problems.len()), (1, 2));
        assert_eq!(report.problems[1].reason, "1 tensors have the packet number of another");
    }
}
