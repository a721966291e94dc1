//! From the name of a package to its folder in the cache.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Seek};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use sha2::Sha512;

use super::archive::{ArchiveFault, unpack};
use super::inventory::Inventory;
use super::settings::DEFAULT_REGISTRY;
use super::{NpmError, NpmSettings};
use crate::PackageError;
use crate::address::Address;
use crate::download::Client;

/// The short form of the page of a package if the registry has it.
const ACCEPTED: &str = "application/vnd.npm.install-v1+json, application/json;q=0.8";

/// A version of a package whose content is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpmPackage {
    /// Its name, with its scope.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-512 of its archive in base64, as npm writes it after `sha512-`.
    pub sha512: &'static str,
    /// Size of its archive.
    pub archive_bytes: u64,
    /// The folder that is unpacked, beside the files at the root; source maps are left out.
    pub folder: &'static str,
}

impl NpmPackage {
    /// Its folder in a cache, whether it is there or not.
    pub fn cached_path(&self, cache: &Path) -> PathBuf {
        cache.join(format!("{}-{}", self.name.trim_start_matches('@').replace('/', "-"), self.version))
    }

    /// Its folder in a cache, if every file is as it was unpacked.
    pub fn cached(&self, cache: &Path) -> Result<PathBuf, NpmError> {
        let (folder, package, version) = (self.cached_path(cache), self.name, self.version);
        if fs::symlink_metadata(&folder).is_err() {
            return Err(NpmError::NotCached { package, version, folder });
        }
        match Inventory::fault(&folder, self.sha512) {
            Some(reason) => Err(NpmError::DamagedCopy { package, version, reason, folder }),
            None => Ok(folder),
        }
    }

    /// Downloads it, checks it, and puts it into a cache whole or not at all, in place of a damaged copy.
    ///
    /// `progress` is told how many bytes of the archive there are, and how many there will be if that is known.
    pub fn fetch(
        &self,
        settings: &NpmSettings,
        cache: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<PathBuf, NpmError> {
        if settings.is_offline {
            return Err(NpmError::Offline { package: self.name, version: self.version });
        }
        let failed = |action: &'static str| move |error| PackageError::from_io(action, cache, error);
        fs::create_dir_all(cache).map_err(failed("making the cache"))?;
        let staging = tempfile::Builder::new().prefix(".unpacking-").tempdir_in(cache);
        let staging = staging.map_err(failed("making a temporary folder"))?;
        let mut archive = tempfile::tempfile_in(cache).map_err(failed("making a temporary file"))?;
        self.download(settings, &mut archive, progress)?;
        archive.rewind().map_err(failed("reading a download"))?;
        let package = staging.path().join("package");
        fs::create_dir(&package).map_err(failed("making a temporary folder"))?;
        self.unpack(&archive, &package)?;
        self.put_in_place(&package, staging.path(), cache)
    }

    fn download(
        &self,
        settings: &NpmSettings,
        archive: &mut File,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), NpmError> {
        let client = Client::new(&settings.connections)?;
        let registry = settings.registry_of(self.name)?;
        let mut get = |address: &Address| client.file::<Sha512>(address, self.archive_bytes, archive, progress);
        let found = match get(&registry.join(&self.usual_address())?) {
            Err(PackageError::Status { status: 404, .. }) => get(&self.listed_address(&client, &registry)?)?,
            outcome => outcome?,
        };
        let found = BASE64_STANDARD.encode(found);
        match found == self.sha512 {
            true => Ok(()),
            false => {
                Err(NpmError::OtherContent { package: self.name, version: self.version, found, needed: self.sha512 })
            }
        }
    }

    /// Where most registries have the archive, which spares the page of the package: that may be larger than the archive.
    fn usual_address(&self) -> String {
        let short_name = self.name.rsplit('/').next().unwrap_or(self.name);
        format!("{}/-/{short_name}-{}.tgz", self.name, self.version)
    }

    /// Where the registry says that it has the archive.
    fn listed_address(&self, client: &Client<'_>, registry: &Address) -> Result<Address, NpmError> {
        let none = || NpmError::NoVersion { package: self.name, version: self.version, registry: registry.shown() };
        let page =
            client.page(&registry.join(&self.name.replace('/', "%2f"))?, ACCEPTED).map_err(|error| match error {
                PackageError::Status { status: 404, .. } => none(),
                error => error.into(),
            })?;
        let listed: Listing = serde_json::from_slice(&page.body).map_err(|_| none())?;
        let archive = &listed.versions.get(self.version).ok_or_else(none)?.dist.tarball;
        // A copy of the public registry may list addresses of the original, which npm replaces too.
        match archive.strip_prefix(DEFAULT_REGISTRY) {
            Some(path) => Ok(registry.join(path)?),
            None => Ok(page.address.join(archive)?),
        }
    }

    fn unpack(&self, archive: &File, target: &Path) -> Result<(), NpmError> {
        let within = format!("{}/", self.folder);
        let keeps = |path: &str| (path.starts_with(&within) || !path.contains('/')) && !path.ends_with(".map");
        let files = unpack(BufReader::new(archive), &keeps, target).map_err(|fault| match fault {
            ArchiveFault::Unfit(reason) => NpmError::UnfitArchive { package: self.name, version: self.version, reason },
            ArchiveFault::Write(path, error) => PackageError::from_io("unpacking a package", &path, error).into(),
        })?;
        let inventory = Inventory { integrity: self.sha512.to_owned(), files };
        Ok(inventory.write(target).map_err(PackageError::from)?)
    }

    /// Renames the unpacked folder. If another process was faster, its copy is as good.
    fn put_in_place(&self, unpacked: &Path, staging: &Path, cache: &Path) -> Result<PathBuf, NpmError> {
        let target = self.cached_path(cache);
        if let Err(NpmError::DamagedCopy { .. }) = self.cached(cache) {
            // It disappears with the temporary folder.
            let _ = fs::rename(&target, staging.join("damaged"));
        }
        match fs::rename(unpacked, &target) {
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                self.cached(cache)
            }
            Err(error) => Err(PackageError::from_io("keeping an unpacked package", &target, error).into()),
            Ok(()) => Ok(target),
        }
    }
}

/// The page of a package, as far as it is needed.
#[derive(Deserialize)]
struct Listing {
    versions: std::collections::BTreeMap<String, Version>,
}

#[derive(Deserialize)]
struct Version {
    dist: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    tarball: String,
}
