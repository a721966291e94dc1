//! Batches that were recorded before: in a raw stream of ours, as payloads with their lengths, or as lines of JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use dwell_store::StoreError;

use crate::json::batch_of_line;
use crate::limits::PAYLOAD_MAX_BYTES;
use crate::raw::{RawBatch, RawBatches, RawItem};

const READING: &str = "reading recorded KV events";
/// An Arrow stream begins so; as a length it would be far beyond what a payload may have.
const ARROW_BEGINS: [u8; 4] = [0xff; 4];

/// How batches were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingForm {
    /// `raw/kv_events.arrows` of a run.
    RawStream,
    /// Payloads, each behind its length in 4 bytes, big-endian.
    LengthPrefixed,
    /// One batch per line.
    JsonLines,
}

impl RecordingForm {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            RecordingForm::RawStream => "raw_stream",
            RecordingForm::LengthPrefixed => "length_prefixed",
            RecordingForm::JsonLines => "json_lines",
        }
    }
}

/// A batch as it was recorded.
pub(crate) struct Recorded {
    /// None where the form has no numbers.
    pub(crate) sequence: Option<u64>,
    /// Its other fields; the payload is empty at a place that could not be read.
    pub(crate) batch: RawBatch,
}

/// Reads one file.
pub(crate) struct Recording {
    path: PathBuf,
    source: Source,
}

enum Source {
    RawStream(RawBatches),
    LengthPrefixed(BufReader<File>),
    JsonLines(BufReader<File>),
    Ended,
}

impl Recording {
    /// Opens a file and looks at its first bytes.
    pub(crate) fn open(path: &Path) -> Result<(Self, RecordingForm), StoreError> {
        let failed = |error| StoreError::from_io(READING, path, error);
        let mut file = BufReader::new(dwell_files::open_with_end(path).map_err(failed)?);
        let first = file.fill_buf().map_err(failed)?;
        let (source, form) = if first.starts_with(&ARROW_BEGINS) {
            (Source::RawStream(RawBatches::open(path)?), RecordingForm::RawStream)
        } else if first.first().is_some_and(|byte| b"[{ \t\r\n".contains(byte)) {
            (Source::JsonLines(file), RecordingForm::JsonLines)
        } else {
            (Source::LengthPrefixed(file), RecordingForm::LengthPrefixed)
        };
        Ok((Self { path: path.to_owned(), source }, form))
    }

    /// The next batch, or a place that could not be read; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Recorded>, StoreError> {
        let failed = |error| StoreError::from_io(READING, &self.path, error);
        let (next, is_last) = match &mut self.source {
            Source::Ended => return Ok(None),
            Source::RawStream(batches) => (batches.next().map(recorded), false),
            Source::JsonLines(lines) => (next_line(lines).map_err(failed)?, false),
            Source::LengthPrefixed(file) => next_payload(file).map_err(failed)?,
        };
        if is_last || next.is_none() {
            self.source = Source::Ended;
        }
        Ok(next)
    }
}

fn recorded(item: RawItem) -> Recorded {
    match item {
        RawItem::Batch(batch) => Recorded { sequence: Some(batch.sequence), batch },
        RawItem::Damage(_) => unreadable(),
    }
}

fn unreadable() -> Recorded {
    Recorded { sequence: None, batch: RawBatch::default() }
}

fn with_payload(sequence: Option<u64>, payload: Vec<u8>) -> Recorded {
    Recorded { sequence, batch: RawBatch { payload, ..RawBatch::default() } }
}

fn next_line(lines: &mut BufReader<File>) -> io::Result<Option<Recorded>> {
    loop {
        let mut line = Vec::new();
        // JSON takes about twice the bytes of MessagePack, and up to 16 times its own in memory until it is decoded.
        let limit = PAYLOAD_MAX_BYTES as u64;
        if lines.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.len() as u64 == limit && !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
            return Ok(Some(unreadable()));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        return Ok(Some(match batch_of_line(&line) {
            Ok(batch) => with_payload(batch.sequence, batch.payload),
            Err(_) => unreadable(),
        }));
    }
}

/// Also whether it is the last: behind a length that cannot be, nothing can be found.
fn next_payload(file: &mut BufReader<File>) -> io::Result<(Option<Recorded>, bool)> {
    let mut length = [0; 4];
    let head_bytes = read_fully(file, &mut length)?;
    if head_bytes == 0 {
        return Ok((None, true));
    }
    let payload_bytes = u32::from_be_bytes(length) as usize;
    // No batch is empty: zeros are what a file of another kind, or a hole, is full of.
    if head_bytes < length.len() || payload_bytes == 0 || payload_bytes > PAYLOAD_MAX_BYTES {
        return Ok((Some(unreadable()), true));
    }
    let mut payload = Vec::new();
    file.by_ref().take(payload_bytes as u64).read_to_end(&mut payload)?;
    let is_torn = payload.len() < payload_bytes;
    Ok((Some(with_payload(None, payload)), is_torn))
}

fn read_fully(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_zeros_is_one_unreadable_batch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zeros");
        std::fs::write(&path, vec![0; 4096]).unwrap();
        let (mut recording, form) = Recording::open(&path).unwrap();
        assert!(matches!(form, RecordingForm::LengthPrefixed));
        assert!(recording.next().unwrap().is_some_and(|recorded| recorded.batch.payload.is_empty()));
        assert!(recording.next().unwrap().is_none());
    }
}
