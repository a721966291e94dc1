//! Records that are no samples: which process has which file mapped where.

use super::fields::{Fields, text_until_zero};
use super::sample::Sample;

/// A record, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// A file or memory was mapped.
    Mapping(Box<Mapping>),
    /// A thread was named.
    Comm(Box<Comm>),
    /// A process or a thread was made.
    Fork(Relation),
    /// A thread ended.
    Exit(Relation),
}

/// Memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Process; [`Mapping::KERNEL_PID`] for the kernel and its modules.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// File, or a name in brackets, or `//anon`.
    pub name: String,
    /// Build id of the file, if it was recorded.
    pub build_id: Option<BuildId>,
}

impl Mapping {
    /// The process of the kernel's own mappings.
    pub const KERNEL_PID: u32 = u32::MAX;
}

/// Build id of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl BuildId {
    /// The longest that perf records: that of SHA-1.
    const MAX_BYTES: usize = 20;

    /// A build id; none if it is empty or longer than any that perf records.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        (!id.is_empty()).then_some(Self { bytes, length: id.len() as u8 })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// The name of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// Whether it was named because it executes another program now.
    pub is_exec: bool,
}

/// A thread and the one that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Process.
    pub pid: u32,
    /// Process that made it; the same if a thread was made.
    pub parent_pid: u32,
    /// Thread.
    pub tid: u32,
}

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

pub(super) fn mmap(body: &[u8]) -> Option<Mapping> {
    let mut fields = Fields(body);
    let (pid, _tid) = (fields.u32()?, fields.u32()?);
    let (start, length, file_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    Some(Mapping { pid, start, length, file_offset, name: text_until_zero(fields.0), build_id: None })
}

pub(super) fn mmap2(misc: u16, body: &[u8]) -> Option<Mapping> {
    let (fixed, rest) = body.split_at_checked(32)?;
    let mut fields = Fields(rest);
    let identity = fields.bytes(24)?;
    let (_protection, _flags) = (fields.u32()?, fields.u32()?);
    let has_build_id = misc & MISC_MMAP_BUILD_ID != 0;
    let build_id = has_build_id.then(|| BuildId::new(identity[4..].get(..identity[0].into())?)).flatten();
    Some(Mapping { name: text_until_zero(fields.0), build_id, ..mmap(fixed)? })
}

pub(super) fn comm(misc: u16, body: &[u8]) -> Option<Comm> {
    let mut fields = Fields(body);
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    Some(Comm { pid, tid, name: text_until_zero(fields.0), is_exec: misc & MISC_COMM_EXEC != 0 })
}

/// Thread and parent of a fork or an exit.
pub(super) fn relation(body: &[u8]) -> Option<Relation> {
    let mut fields = Fields(body);
    Some(Relation { pid: fields.u32()?, parent_pid: fields.u32()?, tid: fields.u32()? })
}

/// A file and its build id, as `perf` adds it at the end of a recording.
pub(super) fn build_id(misc: u16, body: &[u8]) -> Option<(String, BuildId)> {
    let mut fields = Fields(body);
    let _pid = fields.u32()?;
    let id = fields.bytes(24)?;
    let length = if misc & MISC_BUILD_ID_SIZE != 0 { id[20].into() } else { BuildId::MAX_BYTES };
    Some((text_until_zero(fields.0), BuildId::new(id.get(..length)?)?))
}
