//! What can be wrong with a GGUF file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use thiserror::Error;

/// A file that could not be read, and why.
#[derive(Debug)]
pub struct GgufError {
    /// What was wrong.
    pub kind: GgufErrorKind,
    /// The file, where there is one.
    pub path: Option<PathBuf>,
}

impl GgufError {
    pub(crate) fn at(kind: GgufErrorKind, path: &Path) -> GgufError {
        GgufError { kind, path: Some(path.to_owned()) }
    }

    fn hints_if_missing(&self) -> Vec<String> {
        let folder = self.path.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        vec![
            format!("check the path: ls -l '{}'", folder.display()),
            "or download a model: dwell model pull".to_owned(),
        ]
    }
}

impl From<GgufErrorKind> for GgufError {
    fn from(kind: GgufErrorKind) -> GgufError {
        GgufError { kind, path: None }
    }
}

impl fmt::Display for GgufError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(formatter)?;
        match &self.path {
            Some(path) => write!(formatter, ": {path:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GgufError {
    // The message is the kind's, so the cause is the kind's too; naming the kind as the cause would repeat it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// What was wrong with a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GgufErrorKind {
    /// There is no such file.
    #[error("opening the model: no such file")]
    Missing,

    /// The file is there and cannot be opened.
    #[error("opening the model failed")]
    Open {
        /// Why.
        source: io::Error,
    },

    /// The operating system could not read.
    #[error("reading {section} failed at byte {offset}")]
    Read {
        /// Part of the file.
        section: &'static str,
        /// Where in the file.
        offset: u64,
        /// Why.
        source: io::Error,
    },

    /// The file does not begin with `GGUF`.
    #[error("reading the header: found magic \"{}\", needed \"GGUF\"", found.escape_ascii())]
    NotGguf {
        /// The first four bytes.
        found: [u8; 4],
    },

    /// The numbers are in the other byte order.
    #[error("reading the header: found a big-endian file of version {version}, needed little-endian")]
    BigEndian {
        /// Version, in that byte order.
        version: u32,
    },

    /// The version is not one that is read.
    #[error("reading the header: found GGUF version {found}, needed 2 or 3")]
    UnsupportedVersion {
        /// Version in the file.
        found: u32,
    },

    /// The file ends too early.
    #[error("reading {section} at byte {offset}: needed {needed_bytes} bytes, found {found_bytes} before the end")]
    Truncated {
        /// Part of the file.
        section: &'static str,
        /// Where in the file.
        offset: u64,
        /// Bytes that should follow.
        needed_bytes: u64,
        /// Bytes that do follow.
        found_bytes: u64,
    },

    /// A count says more than the rest of the file can hold.
    #[error(
        "reading {section} at byte {offset}: a count of {count} needs at least {needed_bytes} bytes, found \
         {found_bytes} before the end"
    )]
    CountTooLarge {
        /// Part of the file.
        section: &'static str,
        /// Where in the file, after the count.
        offset: u64,
        /// The count.
        count: u64,
        /// Fewest bytes that so many take.
        needed_bytes: u128,
        /// Bytes that follow.
        found_bytes: u64,
    },

    /// A name is not text.
    #[error("reading {section} at byte {offset}: found a name that is not UTF-8")]
    NotText {
        /// Part of the file.
        section: &'static str,
        /// Where in the file, after the name.
        offset: u64,
    },

    /// A metadata value has a type that GGUF does not have.
    #[error("reading the metadata: key '{key}' has value type {found}, needed 0 to 12")]
    UnknownValueType {
        /// Key of the value.
        key: String,
        /// Number in the file.
        found: u32,
    },

    /// An array holds arrays.
    #[error("reading the metadata: key '{key}' is an array of arrays, needed an array of plain values")]
    NestedArray {
        /// Key of the value.
        key: String,
    },

    /// A key is there twice.
    #[error("reading the metadata: found key '{key}' twice, needed it once")]
    DuplicateKey {
        /// The key.
        key: String,
    },

    /// The alignment of the tensors makes no sense.
    #[error("reading the metadata: found general.alignment {found}, needed a power of two as a u32")]
    BadAlignment {
        /// The value in words.
        found: String,
    },

    /// A tensor has too many dimensions.
    #[error("reading the tensor list: tensor '{tensor}' has {found} dimensions, needed at most 4")]
    TooManyDimensions {
        /// Name of the tensor.
        tensor: String,
        /// Dimensions in the file.
        found: u32,
    },

    /// A tensor has a type that ggml does not have.
    #[error("reading the tensor list: tensor '{tensor}' has type {found}, which is not a known ggml type")]
    UnknownTensorType {
        /// Name of the tensor.
        tensor: String,
        /// Number in the file.
        found: u32,
    },

    /// A row of a tensor ends inside a block, or the size cannot be counted.
    #[error(
        "reading the tensor list: tensor '{tensor}' has dimensions {dimensions:?}, needed rows of whole blocks of \
         {block_values} ({type_name}) and a size below 2^64"
    )]
    BadDimensions {
        /// Name of the tensor.
        tensor: String,
        /// Dimensions in the file.
        dimensions: Vec<u64>,
        /// Name of the type.
        type_name: &'static str,
        /// Values in a block.
        block_values: u64,
    },

    /// A tensor does not begin at a multiple of the alignment.
    #[error("reading the tensor list: tensor '{tensor}' has offset {offset}, needed a multiple of {alignment_bytes}")]
    Misaligned {
        /// Name of the tensor.
        tensor: String,
        /// Offset in the data section.
        offset: u64,
        /// Alignment of the file.
        alignment_bytes: u64,
    },

    /// A tensor is there twice.
    #[error("reading the tensor list: found tensor '{tensor}' twice, needed it once")]
    DuplicateTensor {
        /// Name of the tensor.
        tensor: String,
    },

    /// The data of a tensor goes beyond the end of the file.
    #[error("checking tensor '{tensor}': needed a file of {needed_bytes} bytes, found {found_bytes}")]
    TensorPastEnd {
        /// Name of the tensor.
        tensor: String,
        /// Bytes that the file should have at least.
        needed_bytes: u128,
        /// Bytes that the file has.
        found_bytes: u64,
    },
}

impl Hint for GgufError {
    fn hints(&self) -> Vec<String> {
        let hint = match self.kind {
            GgufErrorKind::Missing => return self.hints_if_missing(),
            GgufErrorKind::Open { .. } => "check that the file can be read by this user",
            GgufErrorKind::NotGguf { .. } => "give a model in GGUF format; other formats must be converted first",
            GgufErrorKind::BigEndian { .. } => "use the little-endian version of the model",
            GgufErrorKind::UnsupportedVersion { .. } => "convert the model again with a current llama.cpp",
            GgufErrorKind::UnknownTensorType { .. } => "quantise the model again with a type that llama.cpp still has",
            GgufErrorKind::Truncated { .. }
            | GgufErrorKind::CountTooLarge { .. }
            | GgufErrorKind::TensorPastEnd { .. } => "copy or download the file again; it is not complete",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
