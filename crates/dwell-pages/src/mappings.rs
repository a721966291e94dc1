//! The mappings of a process, from `/proc/<pid>/maps`.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Names of shared memory whose writes can be noted: it is backed by no file on a disk.
const SHARED_MEMORY: [&str; 4] = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV"];
/// Mappings that belong to the kernel.
const OF_THE_KERNEL: [&str; 4] = ["[vvar", "[vdso", "[vsyscall", "[uprobes"];

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses.
    pub range: Range<u64>,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// Whether the process may write to it.
    pub is_writable: bool,
    /// Whether other processes that map it see writes.
    pub is_shared: bool,
    /// File, or a name of the kernel such as `[heap]`; empty for anonymous memory.
    pub name: Arc<str>,
}

impl Mapping {
    /// Whether the kernel can note writes to it.
    pub fn notes_writes(&self) -> bool {
        let begins_with = |names: &[&str]| names.iter().any(|name| self.name.starts_with(name));
        self.is_writable && !begins_with(&OF_THE_KERNEL) && (!self.is_shared || begins_with(&SHARED_MEMORY))
    }

    /// From a line of `/proc/<pid>/maps`, which is also the first line of a mapping in `smaps`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let mode = words.next()?.as_bytes();
        let file_offset = address(words.next()?)?;
        let name = words.nth(2).map_or("", str::trim);
        Some(Self {
            range: address(begin)?..address(end)?,
            file_offset,
            is_writable: mode.get(1) == Some(&b'w'),
            is_shared: mode.get(3) == Some(&b's'),
            name: name.into(),
        })
    }
}

/// The mappings of a process, by address.
pub fn mappings_of(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(Mapping::parse).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_names() {
        let mapping = |line| Mapping::parse(line).unwrap();
        let heap = mapping("55d0-55f0 rw-p 00000000 00:00 0                          [heap]");
        assert_eq!((heap.range.clone(), &*heap.name), (0x55d0..0x55f0, "[heap]"));
        assert!(heap.notes_writes());
        let anonymous = mapping("7f00-7f10 rw-p 00000000 00:00 0 ");
        assert_eq!(&*anonymous.name, "");
        assert!(anonymous.notes_writes());
        let file = mapping("7f00-7f10 r--p 0001c000 fe:00 12   /opt/my models/a b.gguf");
        assert_eq!((&*file.name, file.file_offset), ("/opt/my models/a b.gguf", 0x1c000));
        assert!(!file.notes_writes());
        assert_eq!(Mapping::parse("Referenced:  4 kB"), None);
    }

    #[test]
    fn shared_files_and_mappings_of_the_kernel_are_left_alone() {
        let notes = |line| Mapping::parse(line).unwrap().notes_writes();
        assert!(!notes("7f00-7f10 rw-s 00000000 fe:00 12   /runs/1.ring"));
        assert!(notes("7f00-7f10 rw-s 00000000 00:01 12   /memfd:cache (deleted)"));
        assert!(!notes("7f00-7f10 rw-p 00000000 00:00 0   [vvar]"));
    }
}
