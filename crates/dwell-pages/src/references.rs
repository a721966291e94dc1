//! Accesses by mapping: `clear_refs` takes the marks away that reads and writes leave, `smaps` counts them.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::Mapping;

/// Takes the marks of anonymous pages and of pages of files.
const CLEAR_ALL: &str = "1";
/// Takes the marks of the older way to note writes, which nobody here reads, and then has all processors forget the translations
/// of this memory. Without that, a page whose translation is still cached is accessed without a mark.
const CLEAR_SOFT_DIRTY: &str = "4";

/// A mapping that was accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referenced {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its name.
    pub name: Arc<str>,
    /// Bytes of the pages of it that were read or written.
    pub bytes: u64,
}

/// The marks of a process.
pub struct References {
    pid: u32,
}

impl References {
    /// Begins to watch: takes the marks away.
    pub fn begin(pid: u32) -> io::Result<Self> {
        let references = Self { pid };
        references.clear()?;
        Ok(references)
    }

    /// Mappings that were accessed since the last call. An access between looking and clearing is missed.
    pub fn take(&self) -> io::Result<Vec<Referenced>> {
        let smaps = fs::read(format!("/proc/{}/smaps", self.pid))?;
        let referenced = referenced_in(&String::from_utf8_lossy(&smaps));
        self.clear()?;
        Ok(referenced)
    }

    fn clear(&self) -> io::Result<()> {
        let file = format!("/proc/{}/clear_refs", self.pid);
        fs::write(&file, CLEAR_ALL)?;
        fs::write(&file, CLEAR_SOFT_DIRTY)
    }
}

/// Mappings with marks, from the text of `smaps`.
fn referenced_in(smaps: &str) -> Vec<Referenced> {
    let mut found = Vec::new();
    let mut mapping: Option<Mapping> = None;
    for line in smaps.lines() {
        if let Some(value) = line.strip_prefix("Referenced:") {
            let kibibytes = value.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0);
            if let Some(Mapping { range, name, .. }) = mapping.take().filter(|_| kibibytes > 0) {
                found.push(Referenced { range, name, bytes: kibibytes * 1024 });
            }
        } else if let Some(begun) = Mapping::parse(line) {
            mapping = Some(begun);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_with_marks_are_told() {
        let smaps = "7f00-7f10 rw-p 00000000 00:00 0 \nSize: 4 kB\nReferenced:            0 kB\nVmFlags: rd wr\n\
                     8f00-8f10 r--p 00000000 fe:00 7   /models/tiny.gguf\nSize: 64 kB\nReferenced:           16 kB\n";
        let expected = Referenced { range: 0x8f00..0x8f10, name: "/models/tiny.gguf".into(), bytes: 16 << 10 };
        assert_eq!(referenced_in(smaps), [expected]);
    }
}
