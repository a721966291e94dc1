//! A stream read back.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dwell_codec::{Decoder, Encoded};
use dwell_files::arrow_framing::CONTINUATION;

use crate::container::{
    BatchSpan, CONTAINER_VERSIONS, ContainerVersion, DroppedRow, Index, PacketEntry, ScanEnd, VERSION_KEY, read_at,
    read_footer, read_schema, scan,
};
use crate::{Stored, TensorHead, TensorsError, TokenMark};

const OPENING: &str = "opening a tensor stream";
const READING: &str = "reading a tensor stream";

/// How a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// With its index: nothing is missing.
    Finished,
    /// Without: its writer was stopped, has not ended it yet, or the end is damaged.
    Unfinished {
        /// End of the last whole batch.
        whole_bytes: u64,
        /// What is there instead of an end.
        reason: String,
    },
}

/// One tensor as it lies in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    /// What its producer said about it.
    pub head: TensorHead,
    /// How it is stored.
    pub encoded: Encoded,
    /// Its elements, encoded; the checksum has been checked.
    pub payload: Vec<u8>,
}

/// A tensor stream, opened for reading.
///
/// What is in it is known from the index at its end, or, where that is missing or damaged, from the batches.
/// Elements are read when they are asked for. Threads may share it.
pub struct TensorFile {
    file: File,
    path: PathBuf,
    metadata: BTreeMap<String, String>,
    version: ContainerVersion,
    file_bytes: u64,
    /// Length of the schema message.
    head_bytes: u64,
    index: Index,
    end: FileEnd,
    /// Whether the end-of-stream marker follows the last batch.
    is_marked: bool,
    /// Places of the packets of each name.
    by_name: OnceLock<HashMap<Arc<str>, Vec<usize>>>,
}

impl TensorFile {
    /// Opens a stream, finished or not.
    pub fn open(path: &Path) -> Result<Self, TensorsError> {
        let unopened = |error| TensorsError::from_io(OPENING, path, error);
        let mut file = Self::open_head(path)?;
        if let Some(index) =
            read_footer(file.file_bytes, |at, length| read_at(&file.file, at, length)).map_err(unopened)?
        {
            file.index = index;
            file.end = FileEnd::Finished;
            file.is_marked = true;
            return Ok(file);
        }
        file.scan()?;
        Ok(file)
    }

    /// Opens a stream and reads its batches, whatever its index says.
    pub(crate) fn open_scanned(path: &Path) -> Result<Self, TensorsError> {
        let mut file = Self::open_head(path)?;
        file.scan()?;
        Ok(file)
    }

    fn open_head(path: &Path) -> Result<Self, TensorsError> {
        let unopened = |error| TensorsError::from_io(OPENING, path, error);
        let strange = |reason: String| TensorsError::NotAStream { reason, path: path.to_path_buf() };
        let file = open_regular(path)?;
        let about = file.metadata().map_err(unopened)?;
        let head = read_schema(about.len(), |length| read_at(&file, 0, length)).map_err(strange)?;
        let Some(version) = ContainerVersion::of(&head.metadata) else {
            let found = head.metadata.get(VERSION_KEY).cloned().unwrap_or_default();
            let path = path.to_path_buf();
            return Err(TensorsError::OtherVersion { found, supported: CONTAINER_VERSIONS, path });
        };
        Ok(Self {
            file,
            path: path.to_path_buf(),
            metadata: head.metadata,
            version,
            file_bytes: about.len(),
            head_bytes: head.bytes,
            index: Index::default(),
            end: FileEnd::Unfinished { whole_bytes: head.bytes, reason: "it has not been read".to_owned() },
            is_marked: false,
            by_name: OnceLock::new(),
        })
    }

    /// Takes what the batches say for the index.
    fn scan(&mut self) -> Result<(), TensorsError> {
        let found = scan(&self.file, self.head_bytes, self.file_bytes, self.version);
        let found = found.map_err(|error| TensorsError::from_io(OPENING, &self.path, error))?;
        self.index = found.index.into_index();
        self.is_marked = found.end == ScanEnd::Marked;
        let reason = match found.end {
            ScanEnd::Marked => "its index is missing or damaged".to_owned(),
            ScanEnd::Open => "it stops after a batch, without an end".to_owned(),
            ScanEnd::Damaged(reason) => format!("it stops at {reason}"),
        };
        self.end = FileEnd::Unfinished { whole_bytes: found.whole_bytes, reason };
        Ok(())
    }

    /// Whether the end-of-stream marker follows the last batch, so that other programs read it without complaint.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Which columns its batches have.
    pub(crate) fn version(&self) -> ContainerVersion {
        self.version
    }

    /// Where the first batch begins.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// What is in the stream.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Bytes that are known to be in the file.
    pub(crate) fn bytes_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, TensorsError> {
        read_at(&self.file, offset, length).map_err(|error| TensorsError::from_io(READING, &self.path, error))
    }

    /// Whether the stream was ended by its writer, or by recovery.
    pub fn is_finished(&self) -> bool {
        self.end == FileEnd::Finished
    }

    /// How the stream ends.
    pub fn end(&self) -> &FileEnd {
        &self.end
    }

    /// Where the stream lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What the stream says about itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Every tensor, in the order of the file.
    pub fn packets(&self) -> &[PacketEntry] {
        &self.index.packets
    }

    /// Every batch.
    pub fn batches(&self) -> &[BatchSpan] {
        &self.index.batches
    }

    /// Every token boundary.
    pub fn tokens(&self) -> &[TokenMark] {
        &self.index.tokens
    }

    /// Every note about dropped tensors.
    pub fn dropped_rows(&self) -> &[DroppedRow] {
        &self.index.dropped
    }

    /// How many tensors of each name were dropped, and the bytes of their elements.
    pub fn dropped(&self) -> BTreeMap<String, (u64, u64)> {
        let mut sums = BTreeMap::new();
        for row in &self.index.dropped {
            let (packets, bytes): &mut (u64, u64) = sums.entry(row.name.to_string()).or_default();
            *packets = packets.saturating_add(row.count);
            *bytes = bytes.saturating_add(row.raw_bytes);
        }
        sums
    }

    /// The names, in the order in which they first came.
    pub fn names(&self) -> Vec<&str> {
        self.index.names.iter().map(AsRef::as_ref).collect()
    }

    /// Place of a packet's name in [`TensorFile::names`].
    pub(crate) fn name_place(&self, entry: &PacketEntry) -> usize {
        Index::name_place(entry)
    }

    /// The name of a packet of this file.
    pub fn name(&self, entry: &PacketEntry) -> &str {
        self.index.name(entry)
    }

    /// The shape of a packet of this file.
    pub fn shape(&self, entry: &PacketEntry) -> &[u64] {
        self.index.shape(entry)
    }

    /// What the producer of a packet said about it.
    pub fn head(&self, entry: &PacketEntry) -> TensorHead {
        self.index.head(entry)
    }

    /// How a packet of this file is stored.
    pub fn encoded(&self, entry: &PacketEntry) -> Encoded {
        self.index.encoded(entry)
    }

    /// What codecs made of all tensors, and what they lost.
    pub fn stored(&self) -> Stored {
        Stored::of(&self.index)
    }

    /// Places of the tensors of this name, of one step or of all, in the order of the file.
    pub fn find(&self, name: &str, step: Option<u64>) -> Vec<usize> {
        let by_name = self.by_name.get_or_init(|| places_by_name(&self.index));
        let places = by_name.get(name).into_iter().flatten().copied();
        places.filter(|&place| step.is_none_or(|step| self.index.packets[place].step == step)).collect()
    }

    /// The tensor at a place of [`TensorFile::packets`], as it is stored.
    pub fn read(&self, index: usize) -> Result<StoredTensor, TensorsError> {
        let entry = self.entry(index)?;
        let payload = self.payload(entry)?;
        Ok(StoredTensor { head: self.head(entry), encoded: self.encoded(entry), payload })
    }

    /// The elements of the tensor at a place of [`TensorFile::packets`].
    pub fn read_elements(&self, index: usize) -> Result<Vec<u8>, TensorsError> {
        let entry = self.entry(index)?;
        let too_large =
            || self.damaged(entry, format!("{} bytes of elements, more than memory holds", entry.raw_bytes));
        let length = usize::try_from(entry.raw_bytes).map_err(|_| too_large())?;
        // Asked for first, because a plain allocation that fails ends the program.
        Vec::<u8>::new().try_reserve_exact(length).map_err(|_| too_large())?;
        let mut elements = vec![0; length];
        self.read_elements_into(index, &mut elements)?;
        Ok(elements)
    }

    /// The same into memory of the right length, [`PacketEntry::raw_bytes`].
    pub fn read_elements_into(&self, index: usize, out: &mut [u8]) -> Result<(), TensorsError> {
        let entry = self.entry(index)?;
        if out.len() as u64 != entry.raw_bytes {
            let reason = format!("room for {} bytes, and {} were needed", out.len(), entry.raw_bytes);
            return Err(TensorsError::UnfitTensor { name: self.name(entry).to_owned(), reason });
        }
        let payload = self.payload(entry)?;
        let codec = self.encoded(entry).codec;
        let decoded = Decoder::default().decode(codec, entry.dtype, &payload, out);
        decoded.map_err(|error| self.damaged(entry, error.to_string()))
    }

    fn entry(&self, index: usize) -> Result<&PacketEntry, TensorsError> {
        self.index.packets.get(index).ok_or_else(|| TensorsError::NoSuchEntry {
            index,
            entries: self.index.packets.len(),
            path: self.path.clone(),
        })
    }

    /// The payload of an entry, if it is what was written.
    pub(crate) fn payload(&self, entry: &PacketEntry) -> Result<Vec<u8>, TensorsError> {
        let is_inside = entry.payload_offset.checked_add(entry.payload_bytes).is_some_and(|end| end <= self.file_bytes);
        let length = usize::try_from(entry.payload_bytes).ok().filter(|_| is_inside);
        let length = length.ok_or_else(|| self.damaged(entry, "a payload outside of the file".to_owned()))?;
        let payload = self.bytes_at(entry.payload_offset, length)?;
        if crc32c::crc32c(&payload) != entry.crc32c {
            return Err(self.damaged(entry, "a checksum that does not fit".to_owned()));
        }
        Ok(payload)
    }

    fn damaged(&self, entry: &PacketEntry, reason: String) -> TensorsError {
        let name = self.name(entry).to_owned();
        TensorsError::DamagedPacket { packet: entry.packet, name, reason, path: self.path.clone() }
    }
}

fn places_by_name(index: &Index) -> HashMap<Arc<str>, Vec<usize>> {
    let mut places = vec![Vec::new(); index.names.len()];
    for (place, entry) in index.packets.iter().enumerate() {
        places[Index::name_place(entry)].push(place);
    }
    index.names.iter().cloned().zip(places).collect()
}

/// Opens what is a file: to open a pipe is to wait for it.
fn open_regular(path: &Path) -> Result<File, TensorsError> {
    let failed = |error| TensorsError::from_io(OPENING, path, error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TensorsError::NotAStream { reason: "no regular file".to_owned(), path: path.to_path_buf() });
    }
    File::open(path).map_err(failed)
}

/// Whether a file begins like an Arrow IPC stream, as tensor streams do and packet files do not.
pub fn is_stream(path: &Path) -> Result<bool, TensorsError> {
    let failed = |error| TensorsError::from_io(OPENING, path, error);
    let file = open_regular(path)?;
    let length = file.metadata().map_err(failed)?.len().min(CONTINUATION.len() as u64);
    Ok(read_at(&file, 0, length as usize).map_err(failed)? == CONTINUATION)
}
