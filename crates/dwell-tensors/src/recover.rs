//! Ending a stream whose writer was stopped.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dwell_files::AtomicFile;
use serde::Serialize;

use crate::container::{Index, IndexBuilder};
use crate::stream::{StreamError, checkpoint, tokens_file};
use crate::{FileEnd, TensorFile, TensorsError};

const RECOVERING: &str = "recovering a tensor stream";

/// What [`recover`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Whether the stream had its end already, so that nothing was done.
    pub was_finished: bool,
    /// Why it had none.
    pub reason: Option<String>,
    /// Batches in it now.
    pub batches: u64,
    /// Tensors in it now.
    pub packets: u64,
    /// Token boundaries in it now.
    pub tokens: u64,
    /// Packet numbers that are missing and that the stream does not tell to be dropped: its writer was stopped before.
    pub untold_packets: u64,
    /// Bytes behind the last whole batch, which are not part of it any more.
    pub cut_bytes: u64,
    /// Where those bytes are kept.
    pub tail: Option<PathBuf>,
    /// Where the tokens are listed.
    pub tokens_file: Option<PathBuf>,
}

/// Cuts a stream after its last whole batch and gives it an end. What is cut off is kept in a file beside it. A
/// checkpoint is of no use to a stream with an end, and is removed.
///
/// A second call finds nothing to do. Stopped halfway, it leaves a stream that can be recovered.
pub fn recover(path: &Path) -> Result<Recovered, TensorsError> {
    let failed = |error| TensorsError::from_io(RECOVERING, path, error);
    let stream = TensorFile::open(path)?;
    if stream.is_finished() {
        checkpoint::remove_default(path)?;
        return Ok(summary(&stream, stream.index(), None));
    }
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StreamError::Busy { path: path.to_path_buf() }.into()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // Its writer may have gone on until the lock was free.
    let stream = TensorFile::open(path)?;
    let FileEnd::Unfinished { reason, .. } = stream.end().clone() else {
        return Ok(summary(&stream, stream.index(), None));
    };
    let mut index = stream.index().clone();
    let whole_batches = whole_batches(&stream);
    index.keep_batches(whole_batches);
    let whole_bytes = index.end().unwrap_or(stream.head_bytes());

    let mut recovered = summary(&stream, &index, Some(reason));
    let is_marker_alone = stream.is_marked() && whole_batches == stream.batches().len();
    recovered.cut_bytes = if is_marker_alone { 0 } else { stream.file_bytes() - whole_bytes };
    if recovered.cut_bytes > 0 {
        recovered.tail = Some(keep_tail(&file, path, whole_bytes)?);
    }
    file.set_len(whole_bytes).map_err(failed)?;
    let tokens = index.tokens.clone();
    let duration = duration(&index);
    file.write_all_at(&IndexBuilder::from(index).finish(), whole_bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    if !tokens.is_empty() {
        tokens_file::write(path, &tokens, duration)?;
        recovered.tokens_file = Some(tokens_file::tokens_path(path));
    }
    checkpoint::remove_default(path)?;
    Ok(recovered)
}

fn summary(stream: &TensorFile, index: &Index, reason: Option<String>) -> Recovered {
    Recovered {
        was_finished: stream.is_finished(),
        reason,
        batches: index.batches.len() as u64,
        packets: index.packets.len() as u64,
        tokens: index.tokens.len() as u64,
        untold_packets: index.missing_and_repeated_packets().0.saturating_sub(index.dropped_packets()),
        cut_bytes: 0,
        tail: None,
        tokens_file: None,
    }
}

/// How many batches there are up to the last one whose payloads are all as they were written.
///
/// After a power failure the last batches may be there by length alone. Damage further to the front is not cut at:
/// what follows it is of use.
fn whole_batches(stream: &TensorFile) -> usize {
    let batches = stream.batches();
    let is_whole = |place: &usize| {
        let start = place.checked_sub(1).map_or(0, |before| batches[before].packets_end);
        let packets = &stream.packets()[start as usize..batches[*place].packets_end as usize];
        packets.iter().all(|entry| stream.payload(entry).is_ok())
    };
    (0..batches.len()).rev().find(is_whole).map_or(0, |place| place + 1)
}

/// Copies everything from `offset` on into a new file beside the stream.
fn keep_tail(file: &File, path: &Path, offset: u64) -> Result<PathBuf, TensorsError> {
    let tail = free_tail_path(path);
    let mut copy = AtomicFile::create(&tail)?;
    let mut source = file;
    let copied = source.seek(SeekFrom::Start(offset)).and_then(|_| io::copy(&mut source.by_ref(), &mut copy));
    copied.map_err(|error| TensorsError::from_io("keeping the end of a tensor stream", &tail, error))?;
    copy.commit()?;
    Ok(tail)
}

/// `X.tensors.tail`, or the first `X.tensors.tail.n` that is not there.
fn free_tail_path(path: &Path) -> PathBuf {
    let named = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let numbered = (2_u64..).map(|number| named(&format!(".tail.{number}")));
    let mut candidates = std::iter::once(named(".tail")).chain(numbered);
    candidates.find(|candidate| !candidate.exists()).unwrap_or_else(|| named(".tail"))
}

/// From the first thing in the stream to the last.
fn duration(index: &Index) -> Duration {
    let packets = index.packets.iter().map(|entry| entry.timestamp_ns);
    let times = packets.chain(index.tokens.iter().map(|mark| mark.timestamp_ns));
    let (first, last) = times.fold((i64::MAX, i64::MIN), |(first, last), at| (first.min(at), last.max(at)));
    Duration::from_nanos(u64::try_from(last.saturating_sub(first)).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::fs;

    use dwell_codec::{Codec, DType};

    use super::*;
    use crate::testing::{at, dropped, stream_bytes, tensor, two_batches};
    use crate::verify;

    #[test]
    fn a_stream_with_an_end_has_no_checkpoint() {
        let (bytes, ends) = stream_bytes(&two_batches());
        for length in [ends[1], bytes.len()] {
            let dir = tempfile::tempdir().unwrap();
            let path = at(&dir, &bytes[..length]);
            let left = checkpoint::default_path(&path);
            fs::write(&left, "{}").unwrap();
            recover(&path).unwrap();
            assert!(!left.exists(), "cut at {length}");
        }
    }

    #[test]
    fn a_stream_cut_anywhere_becomes_whole_and_nothing_is_destroyed() {
        let (bytes, ends) = stream_bytes(&two_batches());
        for length in (ends[0]..bytes.len()).step_by(97).chain(ends.clone()) {
            let dir = tempfile::tempdir().unwrap();
            let path = at(&dir, &bytes[..length]);
            let recovered = recover(&path).unwrap();
            let whole_batches = ends.iter().filter(|end| **end <= length).count() - 1;
            let whole_bytes = ends[whole_batches];
            assert_eq!((recovered.was_finished, recovered.batches), (false, whole_batches as u64), "cut at {length}");
            assert!(verify(&path).unwrap().is_sound(), "cut at {length}");
            assert_eq!(fs::read(&path).unwrap()[..whole_bytes], bytes[..whole_bytes]);
            let is_marker = length >= ends[2] + 8;
            let expected_tail = if is_marker { &[] } else { &bytes[whole_bytes..length] };
            let tail = recovered.tail.as_ref().map_or(Vec::new(), |tail| fs::read(tail).unwrap());
            assert_eq!((tail.as_slice(), recovered.cut_bytes), (expected_tail, expected_tail.len() as u64));

            let mended = fs::read(&path).unwrap();
            assert!(recover(&path).unwrap().was_finished);
            assert_eq!(fs::read(&path).unwrap(), mended);
        }
    }

    #[test]
    fn a_last_batch_without_its_payloads_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let (mut bytes, ends) = stream_bytes(&two_batches());
        bytes.truncate(ends[2]);
        let last = TensorFile::open(&at(&dir, &bytes)).unwrap().packets()[3];
        bytes[last.payload_offset as usize] ^= 1;
        let recovered = recover(&at(&dir, &bytes)).unwrap();
        assert_eq!((recovered.batches, recovered.packets), (1, 2));
        assert_eq!(recovered.cut_bytes, (ends[2] - ends[1]) as u64);
        let path = dir.path().join("x.tensors");
        assert!(verify(&path).unwrap().is_sound());
        assert_eq!(TensorFile::open(&path).unwrap().names(), ["model.layers.0", "scalar"]);
    }

    #[test]
    fn gaps_whose_notes_were_lost_are_told() {
        let (bytes, ends) = stream_bytes(&[
            vec![
                tensor(0, "x", Codec::None, DType::U8, &[1], &[7]),
                tensor(4, "x", Codec::None, DType::U8, &[1], &[7]),
            ],
            vec![dropped("x", 3)],
        ]);
        for (length, untold) in [(ends[1], 3), (ends[2], 0)] {
            let dir = tempfile::tempdir().unwrap();
            let path = at(&dir, &bytes[..length]);
            assert_eq!(recover(&path).unwrap().untold_packets, untold);
            assert_eq!(verify(&path).unwrap().is_sound(), untold == 0);
        }
    }

    #[test]
    fn tokens_are_listed_again() {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends) = stream_bytes(&two_batches());
        let recovered = recover(&at(&dir, &bytes[..ends[1]])).unwrap();
        let tokens: serde_json::Value =
            serde_json::from_slice(&fs::read(recovered.tokens_file.unwrap()).unwrap()).unwrap();
        assert_eq!(tokens["total_tokens"], 1);
        assert_eq!(tokens["tokens"][0]["token_text"], " t0");
    }

    #[test]
    fn a_stream_that_is_being_written_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends) = stream_bytes(&two_batches());
        let path = at(&dir, &bytes[..ends[1]]);
        let writer = File::open(&path).unwrap();
        writer.lock().unwrap();
        assert!(matches!(recover(&path), Err(TensorsError::Stream(StreamError::Busy { .. }))));
        assert_eq!(fs::read(&path).unwrap(), bytes[..ends[1]]);
    }
}
