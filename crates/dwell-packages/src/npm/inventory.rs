//! What was unpacked of a package, written beside it: a copy in the cache is compared with it before it is used.

use std::fs;
use std::path::Path;

use dwell_files::{read_own, write_json_atomically};
use serde::{Deserialize, Serialize};

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
}

impl Inventory {
    pub(super) fn write(&self, folder: &Path) -> Result<(), dwell_files::FileError> {
        write_json_atomically(&folder.join(INVENTORY_NAME), self)
    }

    /// What is wrong with a copy, from the sizes of its files: reading 100 MB again at every start would take a second.
    pub(super) fn fault(folder: &Path, integrity: &str) -> Option<String> {
        let inventory = read_own(&folder.join(INVENTORY_NAME), INVENTORY_MAX_BYTES).ok();
        let inventory = inventory.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let Some(inventory) = inventory else { return Some("no list of its files".to_owned()) };
        if inventory.integrity != integrity {
            return Some("the files of another archive".to_owned());
        }
        inventory.files.iter().find_map(|file| {
            let facts = fs::symlink_metadata(folder.join(&file.path)).ok().filter(fs::Metadata::is_file);
            match facts.map(|facts| facts.len()) {
                Some(bytes) if bytes == file.bytes => None,
                Some(bytes) => Some(format!("{bytes} bytes in {}, and {} are needed", file.path, file.bytes)),
                None => Some(format!("no file {}", file.path)),
            }
        })
    }
}
