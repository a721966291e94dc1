//! Appending record batches to `raw/<name>.arrows`.
//!
//! Each batch is self-contained: its dictionaries, if its schema has any, are written again before it, so that a
//! reader can skip a damaged batch and a stream can be continued by another process.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow_schema::{ArrowError, SchemaRef};
use dwell_files::arrow_framing::END_OF_STREAM;

use crate::ipc_message::IpcMessage;
use crate::message_checksum::add_checksum;
use crate::{RawReader, StoreError};

/// Encoded bytes held before they are handed to the kernel without being asked.
///
/// Chosen: large enough that many small batches share one system call, small enough not to matter in a process
/// whose memory is being watched.
const PENDING_LIMIT_BYTES: usize = 1 << 20;

const CREATING: &str = "creating a raw stream";
const WRITING: &str = "writing a raw batch";

/// Whether the buffers of a raw stream are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RawCompression {
    /// As they are: for streams that are written while the model computes.
    #[default]
    None,
    /// zstd: for streams whose size matters more than their cost.
    Zstd,
}

/// Writes one raw stream.
pub struct RawWriter {
    file: File,
    path: PathBuf,
    schema: SchemaRef,
    encoder: BatchEncoder,
    /// Encoded and not yet with the kernel.
    pending: Vec<u8>,
    /// Bytes of whole messages in the file.
    whole_bytes: u64,
}

impl RawWriter {
    /// Begins a stream. The header is in the file when this returns. A file that exists is refused.
    pub fn create(path: &Path, schema: SchemaRef, compression: RawCompression) -> Result<Self, StoreError> {
        Self::create_in(path, schema, compression, || OpenOptions::new().write(true).create_new(true).open(path))
    }

    /// The same in an empty file that is opened once it is known that the stream can be read back.
    pub(crate) fn create_in(
        path: &Path,
        schema: SchemaRef,
        compression: RawCompression,
        open: impl FnOnce() -> io::Result<File>,
    ) -> Result<Self, StoreError> {
        let mut pending = Vec::new();
        let encoder = BatchEncoder::new(&schema, compression, &mut pending).map_err(|error| unfit(path, &error))?;
        // What could not be read back is refused before anything is written.
        IpcMessage::without_body(&pending).schema().map_err(|reason| StoreError::UnfitBatch {
            action: CREATING,
            reason,
            path: path.to_path_buf(),
        })?;
        let file = open().map_err(|error| StoreError::from_io(CREATING, path, error))?;
        let mut writer = Self { file, path: path.to_path_buf(), schema, encoder, pending, whole_bytes: 0 };
        writer.flush()?;
        Ok(writer)
    }

    /// Continues a stream after its last whole batch; what follows that batch is cut off.
    pub fn append(path: &Path, compression: RawCompression) -> Result<Self, StoreError> {
        let mut reader = RawReader::open(path)?;
        // A damaged batch keeps its place: what is behind it may be whole.
        for batch in reader.by_ref() {
            match batch {
                Ok(_) | Err(StoreError::DamagedBatch { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let whole_bytes = reader.whole_bytes();
        let cannot_reopen = |error| StoreError::from_io("reopening a raw stream", path, error);
        let mut file = OpenOptions::new().write(true).open(path).map_err(cannot_reopen)?;
        file.set_len(whole_bytes).map_err(cannot_reopen)?;
        file.seek(SeekFrom::Start(whole_bytes)).map_err(cannot_reopen)?;
        let schema = reader.schema();
        // The header is in the file already; encoding it again only numbers the dictionaries as it did.
        let encoder = BatchEncoder::new(&schema, compression, &mut Vec::new()).map_err(|error| unfit(path, &error))?;
        Ok(Self { file, path: path.to_path_buf(), schema, encoder, pending: Vec::new(), whole_bytes })
    }

    /// Adds a batch. It is safe from the death of this process after the next [`RawWriter::flush`].
    ///
    /// After [`FileError::NoSpace`](dwell_files::FileError::NoSpace) the batch is kept here; writing it again would double it.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        if batch.schema_ref().fields() != self.schema.fields() {
            let reason = format!("its columns are {}, not {}", names(batch.schema_ref()), names(&self.schema));
            return Err(StoreError::UnfitBatch { action: WRITING, reason, path: self.path.clone() });
        }
        let encoded_before = self.pending.len();
        if let Err(error) = self.encoder.encode(batch, &mut self.pending) {
            self.pending.truncate(encoded_before);
            return Err(unfit(&self.path, &error));
        }
        if self.pending.len() >= PENDING_LIMIT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Hands everything to the kernel.
    ///
    /// If that fails, the file is cut back to its last whole message and the batches stay here, so that a later
    /// flush can succeed once there is space.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if let Err(error) = self.file.write_all(&self.pending) {
            // Where even this fails, the reader drops the torn tail.
            let _ = self.file.set_len(self.whole_bytes);
            let _ = self.file.seek(SeekFrom::Start(self.whole_bytes));
            return Err(StoreError::from_io(WRITING, &self.path, error));
        }
        self.whole_bytes += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(PENDING_LIMIT_BYTES);
        Ok(())
    }

    /// Flushes, and waits until the disk has it: safe from the death of the machine.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync_data().map_err(|error| StoreError::from_io("syncing a raw stream", &self.path, error))
    }

    /// Ends the stream, so that a reader knows that nothing is missing.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.pending.extend_from_slice(&END_OF_STREAM);
        self.sync()
    }

    /// Bytes that the stream has with what is not flushed yet.
    pub fn stream_bytes(&self) -> u64 {
        self.whole_bytes + self.pending.len() as u64
    }
}

impl Drop for RawWriter {
    fn drop(&mut self) {
        // On the way out of an error there is nobody left to tell.
        let _ = self.flush();
    }
}

/// Encodes batches so that each can be read without the ones before it.
struct BatchEncoder {
    options: IpcWriteOptions,
    generator: IpcDataGenerator,
    dictionary_count: usize,
    context: IpcWriteContext,
}

impl BatchEncoder {
    /// An encoder for this schema, whose message is appended to `header`.
    fn new(schema: &SchemaRef, compression: RawCompression, header: &mut Vec<u8>) -> Result<Self, ArrowError> {
        let codec = match compression {
            RawCompression::None => None,
            RawCompression::Zstd => Some(CompressionType::ZSTD),
        };
        let options = IpcWriteOptions::default().try_with_compression(codec)?;
        let generator = IpcDataGenerator::default();
        let mut tracker = DictionaryTracker::new(false);
        let message = generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
        write_checked(header, message, &options)?;
        let dictionary_count = tracker.dict_id().len();
        Ok(Self { options, generator, dictionary_count, context: IpcWriteContext::default() })
    }

    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        // A new tracker has seen no dictionary, so every dictionary is written.
        let mut tracker = DictionaryTracker::new(false);
        for _ in 0..self.dictionary_count {
            tracker.next_dict_id();
        }
        let (dictionaries, message) = self.generator.encode(batch, &mut tracker, &self.options, &mut self.context)?;
        for dictionary in dictionaries {
            write_checked(out, dictionary, &self.options)?;
        }
        write_checked(out, message, &self.options)
    }
}

fn write_checked(out: &mut Vec<u8>, mut message: EncodedData, options: &IpcWriteOptions) -> Result<(), ArrowError> {
    add_checksum(&mut message);
    write_message(out, message, options).map(drop)
}

fn unfit(path: &Path, error: &ArrowError) -> StoreError {
    StoreError::UnfitBatch { action: WRITING, reason: error.to_string(), path: path.to_path_buf() }
}

fn names(schema: &SchemaRef) -> String {
    schema
        .fields()
        .iter()
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect::<Vec<_>>()
        .join(", ")
}
