//! Going on with a stream from its checkpoint.

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::checkpoint::{Checkpoint, file_name, identity, remove_if_there};
use super::error::StreamError;
use crate::container::{ContainerVersion, Index, read_at};
use crate::{StreamOptions, TensorFile, TensorsError};

/// A stream as it was at its checkpoint.
pub(super) struct Restored {
    pub(super) index: Index,
    pub(super) version: ContainerVersion,
    /// Length of the message that begins it.
    pub(super) schema_bytes: usize,
    pub(super) checkpoint: Checkpoint,
    /// What lies behind.
    pub(super) excess_bytes: u64,
}

/// Whether a stream holds nothing, and was cut off before there was a checkpoint.
pub(super) fn is_unbegun(path: &Path, file: &File, checkpoint_path: &Path) -> bool {
    let holds_nothing =
        |stream: TensorFile| !stream.is_finished() && stream.packets().is_empty() && stream.tokens().is_empty();
    let is_empty = || file.metadata().is_ok_and(|about| about.len() == 0);
    !checkpoint_path.exists() && (is_empty() || TensorFile::open(path).is_ok_and(holds_nothing))
}

/// Finds the checkpoint of a stream, and checks that the stream still holds what was in it then.
pub(super) fn restore(path: &Path, checkpoint_path: &Path, options: &StreamOptions) -> Result<Restored, TensorsError> {
    let checkpoint = Checkpoint::read(checkpoint_path)?;
    let file = TensorFile::open(path)?;
    let owned_path = || path.to_path_buf();
    if file.is_finished() {
        // Left by a capture that was killed after its last write; nobody needs it.
        remove_if_there(checkpoint_path)?;
        return Err(StreamError::Finished { path: owned_path() }.into());
    }
    let Some(checkpoint) = checkpoint else {
        return Err(StreamError::NoCheckpoint { checkpoint: checkpoint_path.to_path_buf(), path: owned_path() }.into());
    };
    check_identity(path, &file, &checkpoint, checkpoint_path)?;
    check_settings(&file, &checkpoint, options)?;
    let index = checked_index(&file, &checkpoint)?;
    let excess_bytes = file.file_bytes() - checkpoint.stream_bytes;
    let (version, schema_bytes) = (file.version(), file.head_bytes() as usize);
    Ok(Restored { index, version, schema_bytes, checkpoint, excess_bytes })
}

fn check_identity(
    path: &Path,
    file: &TensorFile,
    checkpoint: &Checkpoint,
    checkpoint_path: &Path,
) -> Result<(), TensorsError> {
    let other = |reason: String| StreamError::OtherStream { reason, checkpoint: checkpoint_path.to_path_buf() };
    if checkpoint.stream != file_name(path) {
        return Err(other(format!("of {:?}", checkpoint.stream)).into());
    }
    let schema = File::open(path).and_then(|opened| read_at(&opened, 0, file.head_bytes() as usize));
    let schema = schema.map_err(|error| TensorsError::from_io("reading a tensor stream", path, error))?;
    if identity(&schema) != checkpoint.schema_crc32c {
        return Err(other("the stream has been begun anew since".to_owned()).into());
    }
    Ok(())
}

fn check_settings(file: &TensorFile, checkpoint: &Checkpoint, options: &StreamOptions) -> Result<(), TensorsError> {
    let other = |setting: &str, found: &str, begun: &str| StreamError::OtherSettings {
        setting: setting.to_owned(),
        found: found.to_owned(),
        begun: begun.to_owned(),
        path: file.path().to_path_buf(),
    };
    let codec = options.codec.to_string();
    if codec != checkpoint.codec {
        return Err(other("codec", &codec, &checkpoint.codec).into());
    }
    for (key, value) in &options.metadata {
        let begun = file.metadata().get(key).map_or("", String::as_str);
        if begun != value {
            return Err(other(key, value, begun).into());
        }
    }
    Ok(())
}

/// The index up to the checkpoint, if every payload before it is what was written.
fn checked_index(file: &TensorFile, checkpoint: &Checkpoint) -> Result<Index, TensorsError> {
    let lost = |reason: String| StreamError::LostSinceCheckpoint {
        reason,
        needed_bytes: checkpoint.stream_bytes,
        path: file.path().to_path_buf(),
    };
    let mut index = file.index().clone();
    let batches = index.batches.partition_point(|span| span.offset + span.bytes <= checkpoint.stream_bytes);
    index.keep_batches(batches);
    let end = index.end().unwrap_or_else(|| file.head_bytes());
    if end != checkpoint.stream_bytes {
        return Err(lost(format!("{end} whole bytes")).into());
    }
    if index.tokens.len() as u64 != checkpoint.tokens {
        return Err(lost(format!("{} tokens instead of {}", index.tokens.len(), checkpoint.tokens)).into());
    }
    match first_damage(file, index.packets.len()) {
        Some(error) => Err(lost(error.to_string()).into()),
        None => Ok(index),
    }
}

/// Reads so many payloads on all cores; the first that is damaged.
fn first_damage(file: &TensorFile, packets: usize) -> Option<TensorsError> {
    let next = AtomicUsize::new(0);
    let damage = OnceLock::new();
    let check = || {
        while damage.get().is_none() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = file.packets()[..packets].get(place) else { return };
            if let Err(error) = file.payload(entry) {
                let _ = damage.set(error);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(check);
        }
    });
    damage.into_inner()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::container::schema_message;
    use crate::stream::checkpoint::default_path;
    use crate::testing::floats;
    use crate::{DType, TensorHead, TensorStream, verify};

    /// Its batches stay alike, so that other programs can still read it as one.
    #[test]
    fn a_stream_of_the_first_version_goes_on_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.tensors");
        let schema = schema_message(&BTreeMap::new(), ContainerVersion::One);
        fs::write(&path, &schema).unwrap();
        let options = StreamOptions { codec: "bounded:range:1e-3".parse().unwrap(), ..StreamOptions::default() };
        let checkpoint =
            Checkpoint::new(&path, schema.len() as u64, (0, 0, 0), options.codec.to_string(), identity(&schema));
        checkpoint.write(&default_path(&path)).unwrap();

        let (stream, _) = TensorStream::resume(&path, options).unwrap();
        let values: Vec<f32> = (0..4096).map(|index| (index as f32 * 0.7).sin()).collect();
        let (name, dtype, shape) = ("x".to_owned(), DType::F32, vec![8, 512]);
        let head = TensorHead { name, layer: None, step: 0, token_index: None, timestamp_ns: 0, dtype, shape };
        stream.submit(head, &floats(&values)).unwrap();
        let summary = stream.finish().unwrap();

        let file = TensorFile::open(&path).unwrap();
        assert_eq!((file.version(), file.packets().len()), (ContainerVersion::One, 1));
        assert!(verify(&path).unwrap().is_sound());
        assert_eq!(summary.stored, file.stored());
        let loss = summary.stored.codec_loss.unwrap();
        assert!(loss.max_error.is_some() && loss.min_cosine.is_none(), "{loss:?}");
    }
}
