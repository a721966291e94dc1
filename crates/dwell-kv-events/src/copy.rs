//! Batches that were recorded elsewhere, as one raw stream.

use std::path::{Path, PathBuf};

use crate::decode_batch;
use crate::error::RecordingError;
use crate::raw::RawBatchWriter;
use crate::recording::{Recorded, Recording, RecordingForm};
use crate::sequence::{Arrival, Sequences};

/// Recorded batches that are now in a raw stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRecordings {
    /// The files that were read.
    pub files: Vec<CopiedFile>,
    /// Time of the first batch that can be decoded.
    pub first_unix_ns: u64,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedFile {
    /// The file.
    pub path: PathBuf,
    /// How its batches were recorded.
    pub form: RecordingForm,
    /// How many there are.
    pub batches: u64,
}

/// Puts the batches of all files into one raw stream, from which the table can be made again. Each file continues where
/// the one before ended.
pub fn copy_recordings(files: &[PathBuf], raw: &Path) -> Result<CopiedRecordings, RecordingError> {
    let mut writer = RawBatchWriter::create(raw)?;
    let mut numbering = Numbering::default();
    let mut copied = Vec::new();
    let mut first_unix_ns = None;
    let mut first_problem = None;
    for path in files {
        let (mut recording, form) = Recording::open(path)?;
        let mut batches = 0;
        while let Some(mut recorded) = recording.next()? {
            numbering.number(&mut recorded);
            if first_unix_ns.is_none() {
                match decode_batch(&recorded.batch.payload) {
                    Ok(events) => first_unix_ns = Some(events.unix_ns),
                    Err(error) => _ = first_problem.get_or_insert(error),
                }
            }
            writer.push(&recorded.batch)?;
            batches += 1;
        }
        copied.push(CopiedFile { path: path.clone(), form, batches });
    }
    writer.finish()?;
    match first_unix_ns {
        Some(first_unix_ns) => Ok(CopiedRecordings { files: copied, first_unix_ns }),
        None => Err(RecordingError::NoBatches { files: files.to_vec(), problem: first_problem }),
    }
}

/// Gives batches numbers and servers, over all files.
#[derive(Default)]
struct Numbering {
    sequences: Sequences,
    /// The server that the file before named.
    named_publisher: Option<u32>,
}

impl Numbering {
    fn number(&mut self, recorded: &mut Recorded) {
        let batch = &mut recorded.batch;
        match recorded.sequence {
            Some(sequence) => {
                let is_another = self.named_publisher.is_some_and(|publisher| publisher != batch.publisher);
                self.named_publisher = Some(batch.publisher);
                if is_another {
                    self.sequences.restart();
                }
                batch.sequence = sequence;
                if self.sequences.arrive(sequence) != Arrival::Duplicate {
                    self.sequences.deliver(sequence);
                }
            }
            None => {
                batch.sequence = self.sequences.next();
                self.sequences.deliver(batch.sequence);
            }
        }
        batch.publisher = self.sequences.publisher();
    }
}
