//! What was unpacked of a package, written beside it: a copy in the cache is compared with it before it is used.

use std::path::Path;
use std::{fs, io};

use dwell_files::{read_own, write_json_atomically};
use serde::{Deserialize, Serialize};

use crate::content::{modified_ns, sha256_of};

/// Its name in the folder of the package.
pub(super) const INVENTORY_NAME: &str = ".dwell-inventory.json";
const INVENTORY_MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Inventory {
    /// SHA-512 of the archive, in base64.
    pub(super) integrity: String,
    pub(super) files: Vec<KeptFile>,
}

/// A file of a package.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptFile {
    /// Below the package's folder.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// When it was unpacked. None in lists of earlier versions, which have sizes alone.
    #[serde(default)]
    pub(super) modified_ns: Option<u64>,
    #[serde(default)]
    pub(super) sha256: Option<String>,
}

impl KeptFile {
    /// A file that was just unpacked below a folder.
    pub(super) fn unpacked(folder: &Path, path: String) -> io::Result<Self> {
        let file = folder.join(&path);
        let facts = fs::symlink_metadata(&file)?;
        let sha256 = Some(sha256_of(&file)?);
        Ok(Self { path, bytes: facts.len(), modified_ns: modified_ns(&facts), sha256 })
    }

    /// What is wrong with it: by its size, and by its content if it may have been touched since.
    fn fault(&self, folder: &Path) -> Option<String> {
        let file = folder.join(&self.path);
        let Some(facts) = fs::symlink_metadata(&file).ok().filter(fs::Metadata::is_file) else {
            return Some(format!("no file {}", self.path));
        };
        if facts.len() != self.bytes {
            return Some(format!("{} bytes in {}, and {} are needed", facts.len(), self.path, self.bytes));
        }
        let needed = self.sha256.as_ref().filter(|_| modified_ns(&facts) != self.modified_ns)?;
        let found = sha256_of(&file).unwrap_or_else(|error| error.to_string());
        (found != *needed).then(|| format!("other content in {}", self.path))
    }
}

impl Inventory {
    pub(super) fn write(&self, folder: &Path) -> Result<(), dwell_files::FileError> {
        write_json_atomically(&folder.join(INVENTORY_NAME), self)
    }

    /// What is wrong with a copy. Only touched files are read: 100 MB at every start would take a second.
    pub(super) fn fault(folder: &Path, integrity: &str) -> Option<String> {
        let inventory = read_own(&folder.join(INVENTORY_NAME), INVENTORY_MAX_BYTES).ok();
        let inventory = inventory.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let Some(inventory) = inventory else { return Some("no list of its files".to_owned()) };
        if inventory.integrity != integrity {
            return Some("the files of another archive".to_owned());
        }
        inventory.files.iter().find_map(|file| file.fault(folder))
    }
}
