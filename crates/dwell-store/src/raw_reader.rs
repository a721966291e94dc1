//! Reading a raw stream back, however it ended.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::SchemaRef;
use dwell_files::arrow_framing::{CONTINUATION, PREFIX_BYTES};
use dwell_files::open_ordinary;

use crate::StoreError;
use crate::ipc_message::{Dictionaries, IpcMessage, body_bytes};
use crate::message_checksum::{check, has_checksum};

const READING: &str = "reading a raw stream";

/// How a raw stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The writer ended it: nothing is missing.
    Finished,
    /// It stops between two batches: the writer was stopped, or has not ended it yet.
    Open,
    /// It stops inside a batch, or at bytes that are no batch. They are left out.
    Truncated {
        /// Batches before that point.
        whole_batches: u64,
        /// Bytes from the last whole batch to the end of the file.
        bytes_dropped: u64,
    },
}

/// Reads one raw stream as far as it had come when it was opened.
///
/// As an iterator it gives every whole batch. A batch whose bytes are all there but make no sense is an error
/// item, and the batches behind it follow.
pub struct RawReader {
    file: BufReader<File>,
    path: PathBuf,
    schema: SchemaRef,
    /// Whether every message has to have a checksum.
    has_checksums: bool,
    dictionaries: Dictionaries,
    file_bytes: u64,
    /// Where the next message begins.
    offset_bytes: u64,
    /// End of the last whole batch.
    whole_bytes: u64,
    batches: u64,
    end: Option<StreamEnd>,
}

/// What lies at a place in the stream.
enum Frame {
    Message(IpcMessage),
    EndOfStream,
    /// Not a whole message.
    Torn,
}

impl RawReader {
    /// Opens a stream and reads its header.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let action = "opening a raw stream";
        let file = open_ordinary(path).map_err(|error| StoreError::from_io(action, path, error))?;
        let file_bytes = file.metadata().map_err(|error| StoreError::from_io(action, path, error))?.len();
        let mut frames = FrameReader { file: BufReader::new(file), left_bytes: file_bytes };
        let damaged = |reason| StoreError::DamagedHeader { reason, path: path.to_path_buf() };
        let header = match frames.next().map_err(|error| StoreError::from_io(READING, path, error))? {
            Frame::Message(message) => message,
            Frame::EndOfStream => return Err(damaged("the stream ends before its schema".to_owned())),
            Frame::Torn if begins_like_a_message(path) => {
                return Err(StoreError::TruncatedHeader { found_bytes: file_bytes, path: path.to_path_buf() });
            }
            Frame::Torn => return Err(damaged("it does not begin with a message".to_owned())),
        };
        let has_checksums = has_checksum(&header.metadata);
        if has_checksums {
            check(&header.metadata, &header.body).map_err(damaged)?;
        }
        let schema = header.schema().map_err(damaged)?;
        let offset_bytes = file_bytes - frames.left_bytes;
        Ok(Self {
            file: frames.file,
            path: path.to_path_buf(),
            schema,
            has_checksums,
            dictionaries: Dictionaries::new(),
            file_bytes,
            offset_bytes,
            whole_bytes: offset_bytes,
            batches: 0,
            end: None,
        })
    }

    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// How the stream ended; `None` until the iterator has come to that point.
    pub fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Batches come by so far, damaged ones included.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Bytes from the beginning of the file to the end of the last batch come by.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    fn next_frame(&mut self) -> Result<Frame, StoreError> {
        let mut frames = FrameReader { file: &mut self.file, left_bytes: self.file_bytes - self.offset_bytes };
        let frame = frames.next().map_err(|error| StoreError::from_io(READING, &self.path, error))?;
        self.offset_bytes = self.file_bytes - frames.left_bytes;
        Ok(frame)
    }

    fn end_here(&mut self, frame: &Frame) {
        let bytes_dropped = self.file_bytes - self.whole_bytes;
        self.end = Some(match frame {
            Frame::EndOfStream => StreamEnd::Finished,
            _ if bytes_dropped == 0 => StreamEnd::Open,
            _ => StreamEnd::Truncated { whole_batches: self.batches, bytes_dropped },
        });
    }

    /// What a message holds, if it is the one that was written.
    fn decode(&mut self, message: &IpcMessage) -> Result<Option<RecordBatch>, String> {
        if self.has_checksums {
            check(&message.metadata, &message.body)?;
        }
        message.decode(&self.schema, &mut self.dictionaries)
    }

    /// The next batch, with the dictionaries before it.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        let begin_bytes = self.offset_bytes;
        let mut damage = None;
        loop {
            let frame = self.next_frame()?;
            let Frame::Message(message) = frame else {
                self.end_here(&frame);
                return Ok(None);
            };
            let decoded = self.decode(&message);
            if message.is_dictionary() {
                damage = damage.or(decoded.err());
                continue;
            }
            self.whole_bytes = self.offset_bytes;
            self.batches += 1;
            return match (damage, decoded) {
                (None, Ok(batch)) => Ok(batch),
                (Some(reason), _) | (None, Err(reason)) => Err(StoreError::DamagedBatch {
                    batch_index: self.batches - 1,
                    offset_bytes: begin_bytes,
                    reason,
                    path: self.path.clone(),
                }),
            };
        }
    }
}

impl Iterator for RawReader {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let batch = self.next_batch();
        if !matches!(batch, Ok(_) | Err(StoreError::DamagedBatch { .. })) {
            // The file cannot be read any further.
            self.end_here(&Frame::Torn);
        }
        batch.transpose()
    }
}

/// Cuts a file into messages and never asks for more bytes than the file has.
struct FrameReader<R> {
    file: R,
    left_bytes: u64,
}

impl<R: Read> FrameReader<R> {
    fn next(&mut self) -> io::Result<Frame> {
        match self.try_next() {
            // The file became shorter since it was opened.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Frame::Torn),
            outcome => outcome,
        }
    }

    fn try_next(&mut self) -> io::Result<Frame> {
        if self.left_bytes < PREFIX_BYTES {
            return Ok(Frame::Torn);
        }
        let mut prefix = [0; PREFIX_BYTES as usize];
        self.file.read_exact(&mut prefix)?;
        let [marker @ .., l0, l1, l2, l3] = prefix;
        let metadata_bytes = i32::from_le_bytes([l0, l1, l2, l3]);
        if marker != CONTINUATION {
            // Zeros that a machine left behind when it lost power look like this.
            return Ok(Frame::Torn);
        }
        if metadata_bytes == 0 {
            self.left_bytes -= PREFIX_BYTES;
            return Ok(Frame::EndOfStream);
        }
        let after_prefix = self.left_bytes - PREFIX_BYTES;
        let Some(after_metadata) = u64::try_from(metadata_bytes).ok().and_then(|bytes| after_prefix.checked_sub(bytes))
        else {
            return Ok(Frame::Torn);
        };
        let mut metadata = vec![0; metadata_bytes as usize];
        self.file.read_exact(&mut metadata)?;
        let Some((body_bytes, after_body)) =
            body_bytes(&metadata).and_then(|bytes| Some((bytes, after_metadata.checked_sub(bytes)?)))
        else {
            return Ok(Frame::Torn);
        };
        let body = self.read_body(body_bytes)?;
        self.left_bytes = after_body;
        Ok(Frame::Message(IpcMessage { metadata, body }))
    }

    fn read_body(&mut self, body_bytes: u64) -> io::Result<Buffer> {
        let length = usize::try_from(body_bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut body = MutableBuffer::from_len_zeroed(length);
        self.file.read_exact(body.as_slice_mut())?;
        Ok(body.into())
    }
}

/// Tells a header that was cut short from a file of another kind.
fn begins_like_a_message(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PREFIX_BYTES / 2).read_to_end(&mut start));
    read.is_ok() && CONTINUATION.starts_with(&start)
}
