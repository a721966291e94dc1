use std::path::PathBuf;

use dwell_events::Hint;

use crate::PackageError;

/// Why a package is not at hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpmError {
    /// It was not downloaded yet.
    #[error("looking for {package} {version} found no copy of it in the cache: {folder:?}")]
    NotCached {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// Where it would be.
        folder: PathBuf,
    },

    /// Its copy in the cache is not what was unpacked there.
    #[error("checking the copy of {package} {version} in the cache found {reason}: {folder:?}")]
    DamagedCopy {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// What is wrong with it.
        reason: String,
        /// Where it is.
        folder: PathBuf,
    },

    /// npm is told to ask nobody.
    #[error("downloading {package} {version} found that npm is set to be offline")]
    Offline {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
    },

    /// The registry has no such version.
    #[error("looking for {package} {version} at {registry} found no such version of it")]
    NoVersion {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// Who was asked, without credentials.
        registry: String,
    },

    /// The registry could not be asked, or a file not be written.
    #[error(transparent)]
    Transfer(#[from] PackageError),

    /// The archive is another one than dwell was made with.
    #[error("checking the archive of {package} {version} found SHA-512 {found}, and {needed} was needed")]
    OtherContent {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// Its SHA-512 in base64.
        found: String,
        /// The one that it should have.
        needed: &'static str,
    },

    /// The archive holds what a package must not hold.
    #[error("unpacking the archive of {package} {version} found {reason}")]
    UnfitArchive {
        /// Name of the package.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Hint for NpmError {
    fn hints(&self) -> Vec<String> {
        let check_npm = "check the network and `npm config ls`: dwell uses the registry, proxy and certificates of npm";
        match self {
            // Who asks knows how to get it.
            Self::NotCached { .. } | Self::DamagedCopy { .. } => Vec::new(),
            Self::Offline { .. } => vec!["allow npm the network: `npm config set offline false`".to_owned()],
            Self::Transfer(PackageError::File(error)) => error.hints(),
            Self::NoVersion { .. } | Self::Transfer(_) => vec![check_npm.to_owned()],
            Self::OtherContent { .. } | Self::UnfitArchive { .. } => {
                vec!["do not use this registry for the package: it has other content under the same version".to_owned()]
            }
        }
    }
}
