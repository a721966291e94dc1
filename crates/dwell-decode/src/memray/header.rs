//! What a capture says of itself before its records.

use std::io::Read;

use super::input::Input;
use crate::error::{DecodeError, DecodeReason};

const MAGIC: [u8; 7] = *b"memray\0";
/// Bytes of a command line or a path; the kernel allows a process 2 MiB of arguments by default.
const TEXT_MAX_BYTES: usize = 4 << 20;
/// Entries of `sys.path` and of the folders of packages.
const PATHS_MAX: u64 = 1 << 16;

const WITHIN: &str = "its header";

/// What a capture says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureHeader {
    /// Version of the format.
    pub version: u32,
    /// Whether the file is compressed.
    pub is_compressed: bool,
    /// Version of Python, as in `sys.hexversion`.
    pub python_version: u32,
    /// Whether stacks of native code were recorded.
    pub has_native_stacks: bool,
    /// Whether there are calls, or only sums of them.
    pub form: CaptureForm,
    /// Calls that memray wrote, when it had finished; 0 if it was killed or only wrote sums.
    pub stated_calls: u64,
    /// When recording began, in milliseconds since 1970.
    pub start_unix_ms: i64,
    /// When memray wrote the header for the last time; the start if it was killed.
    pub end_unix_ms: i64,
    /// Command line.
    pub command_line: String,
    /// Process.
    pub pid: u32,
    /// Its first thread.
    pub main_thread_id: u64,
    /// Outermost frames of that thread that are memray's own.
    pub frames_of_memray: u64,
    /// Which allocator Python used.
    pub python_allocator: PythonAllocator,
    /// Whether calls of Python's own allocator were recorded.
    pub has_python_allocations: bool,
    /// Whether the making and the end of Python objects were recorded.
    pub has_objects: bool,
}

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureForm {
    /// Every call.
    Calls,
    /// Sums by place (`memray run --aggregate`): what was allocated at the peak, and what was left at the end.
    Sums,
}

impl CaptureForm {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            CaptureForm::Calls => "calls",
            CaptureForm::Sums => "sums",
        }
    }
}

/// The allocator of Python objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonAllocator {
    /// `pymalloc`.
    Pymalloc,
    /// `pymalloc_debug`.
    PymallocDebug,
    /// `malloc`.
    Malloc,
    /// Another one.
    Other,
    /// `mimalloc`.
    Mimalloc,
    /// `mimalloc_debug`.
    MimallocDebug,
}

impl PythonAllocator {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            PythonAllocator::Pymalloc => "pymalloc",
            PythonAllocator::PymallocDebug => "pymalloc_debug",
            PythonAllocator::Malloc => "malloc",
            PythonAllocator::Other => "other",
            PythonAllocator::Mimalloc => "mimalloc",
            PythonAllocator::MimallocDebug => "mimalloc_debug",
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            1 => PythonAllocator::Pymalloc,
            2 => PythonAllocator::PymallocDebug,
            3 => PythonAllocator::Malloc,
            5 => PythonAllocator::Mimalloc,
            6 => PythonAllocator::MimallocDebug,
            _ => PythonAllocator::Other,
        }
    }
}

impl CaptureHeader {
    /// Versions of the format that are read. Version 12 lacks the paths of packages; 11 and before had other records.
    pub const VERSIONS: std::ops::RangeInclusive<u32> = 12..=13;

    /// Version of Python, such as `3.11.2`.
    pub fn python_version_text(&self) -> String {
        let [major, minor, micro, _] = self.python_version.to_be_bytes();
        format!("{major}.{minor}.{micro}")
    }

    pub(super) fn read(input: &mut Input<impl Read>) -> Result<Self, DecodeError> {
        let version = read_version(input)?;
        let header = Self {
            version,
            is_compressed: input.is_compressed(),
            python_version: input.fixed(WITHIN).map(u32::from_le_bytes)?,
            has_native_stacks: read_flag(input)?,
            form: read_form(input)?,
            stated_calls: input.word(WITHIN)?,
            start_unix_ms: {
                // Frames, which memray has not counted since version 12.
                input.word(WITHIN)?;
                input.word(WITHIN)? as i64
            },
            end_unix_ms: input.word(WITHIN)? as i64,
            command_line: input.text(WITHIN, TEXT_MAX_BYTES)?,
            pid: input.fixed(WITHIN).map(u32::from_le_bytes)?,
            main_thread_id: input.word(WITHIN)?,
            frames_of_memray: input.word(WITHIN)?,
            python_allocator: PythonAllocator::from_number(input.byte(WITHIN)?),
            has_python_allocations: read_flag(input)?,
            has_objects: read_flag(input)?,
        };
        if version >= 13 {
            skip_paths(input)?;
        }
        Ok(header)
    }
}

fn read_version(input: &mut Input<impl Read>) -> Result<u32, DecodeError> {
    let magic = input.fixed::<{ MAGIC.len() }>(WITHIN)?;
    if magic != MAGIC {
        let found = "no capture of memray: it does not begin with the word memray".to_owned();
        return Err(DecodeError::new(0, DecodeReason::Malformed(found)));
    }
    let version = input.fixed(WITHIN).map(u32::from_le_bytes)?;
    if CaptureHeader::VERSIONS.contains(&version) {
        return Ok(version);
    }
    let found = format!(
        "a capture of memray in version {version} of its format, and versions {} to {} are read (memray 1.19 and 1.20)",
        CaptureHeader::VERSIONS.start(),
        CaptureHeader::VERSIONS.end()
    );
    Err(DecodeError::new(MAGIC.len() as u64, DecodeReason::Unsupported(found)))
}

fn read_flag(input: &mut Input<impl Read>) -> Result<bool, DecodeError> {
    Ok(input.byte(WITHIN)? != 0)
}

fn read_form(input: &mut Input<impl Read>) -> Result<CaptureForm, DecodeError> {
    match input.byte(WITHIN)? {
        0 => Ok(CaptureForm::Calls),
        1 => Ok(CaptureForm::Sums),
        other => Err(input.malformed(format!("its header states the form {other}, and only 0 and 1 are known"))),
    }
}

/// The folder of the standard library, then those of packages and `sys.path`: each list ends with an empty text.
fn skip_paths(input: &mut Input<impl Read>) -> Result<(), DecodeError> {
    input.text(WITHIN, TEXT_MAX_BYTES)?;
    for _ in 0..2 {
        let mut count = 0;
        while !input.text(WITHIN, TEXT_MAX_BYTES)?.is_empty() {
            count += 1;
            input.check_count("folders of packages", count, PATHS_MAX)?;
        }
    }
    Ok(())
}
