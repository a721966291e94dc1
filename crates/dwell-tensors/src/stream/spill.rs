//! Elements that found the memory full wait in a file without a name, which is gone when the stream is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::sync::{lock, wait_at_most};
use crate::TensorsError;

const ACTION: &str = "writing the spill file";

/// Where elements lie in the spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    offset: u64,
    pub(super) bytes: u64,
}

/// The spill file.
pub(super) struct Spill {
    file: File,
    dir: PathBuf,
    max_bytes: u64,
    state: Mutex<Space>,
    freed: Condvar,
}

/// Which parts of the file are free.
#[derive(Debug, Default)]
struct Space {
    /// Free parts before `end`, by offset; no two touch.
    free: BTreeMap<u64, u64>,
    end: u64,
    used_bytes: u64,
}

impl Spill {
    pub(super) fn create(dir: &Path, max_bytes: u64) -> Result<Self, TensorsError> {
        let file =
            tempfile::tempfile_in(dir).map_err(|error| TensorsError::from_io("creating the spill file", dir, error))?;
        Ok(Self { file, dir: dir.to_path_buf(), max_bytes, state: Mutex::default(), freed: Condvar::new() })
    }

    /// The most that fits at all.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Writes elements; waits while the file is as large as it may be, unless `is_over`.
    pub(super) fn store(&self, elements: &[u8], is_over: impl Fn() -> bool) -> Result<Option<Extent>, TensorsError> {
        const LOOK_AROUND: Duration = Duration::from_millis(100);
        let bytes = elements.len() as u64;
        let mut space = lock(&self.state);
        while space.used_bytes + bytes > self.max_bytes {
            if is_over() {
                return Ok(None);
            }
            space = wait_at_most(&self.freed, space, LOOK_AROUND);
        }
        let extent = space.take(bytes);
        drop(space);
        self.write(elements, extent).map(Some)
    }

    /// Writes elements that hold memory of the stream. They do not wait: what is to be read back may need that memory.
    pub(super) fn store_now(&self, elements: &[u8]) -> Result<Extent, TensorsError> {
        let extent = lock(&self.state).take(elements.len() as u64);
        self.write(elements, extent)
    }

    fn write(&self, elements: &[u8], extent: Extent) -> Result<Extent, TensorsError> {
        if let Err(error) = self.file.write_all_at(elements, extent.offset) {
            self.free(extent);
            return Err(TensorsError::from_io(ACTION, &self.dir, error));
        }
        Ok(extent)
    }

    /// Reads elements back, and frees their place.
    pub(super) fn take_back(&self, extent: Extent, buffer: &mut [u8]) -> io::Result<()> {
        let read = self.file.read_exact_at(buffer, extent.offset);
        self.free(extent);
        read
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn free(&self, extent: Extent) {
        let mut space = lock(&self.state);
        space.give_back(extent);
        if space.end == 0 {
            // Gives the disk back what a burst took. The file is only shorter, so nothing is lost if this fails.
            let _ = self.file.set_len(0);
        }
        drop(space);
        self.freed.notify_all();
    }
}

impl Space {
    fn take(&mut self, bytes: u64) -> Extent {
        self.used_bytes += bytes;
        let fitting = self.free.iter().find(|(_, free_bytes)| **free_bytes >= bytes).map(|(o, b)| (*o, *b));
        let offset = match fitting {
            Some((offset, free_bytes)) => {
                self.free.remove(&offset);
                if free_bytes > bytes {
                    self.free.insert(offset + bytes, free_bytes - bytes);
                }
                offset
            }
            None => {
                self.end += bytes;
                self.end - bytes
            }
        };
        Extent { offset, bytes }
    }

    fn give_back(&mut self, extent: Extent) {
        self.used_bytes -= extent.bytes;
        let (mut offset, mut bytes) = (extent.offset, extent.bytes);
        if let Some((&before, &before_bytes)) = self.free.range(..offset).next_back()
            && before + before_bytes == offset
        {
            self.free.remove(&before);
            (offset, bytes) = (before, before_bytes + bytes);
        }
        if let Some(after_bytes) = self.free.remove(&(offset + bytes)) {
            bytes += after_bytes;
        }
        if offset + bytes == self.end {
            self.end = offset;
        } else if bytes > 0 {
            self.free.insert(offset, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_used_again_and_the_end_comes_back() {
        let mut space = Space::default();
        let parts = [10, 20, 30].map(|bytes| space.take(bytes));
        assert_eq!(parts.map(|part| part.offset), [0, 10, 30]);
        space.give_back(parts[0]);
        space.give_back(parts[1]);
        assert_eq!(space.take(25), Extent { offset: 0, bytes: 25 });
        space.give_back(parts[2]);
        assert_eq!((space.end, space.used_bytes), (25, 25));
        space.give_back(Extent { offset: 0, bytes: 25 });
        assert_eq!((space.end, space.used_bytes, space.free.len()), (0, 0, 0));
    }

    #[test]
    fn elements_come_back_and_a_full_file_waits() {
        let dir = tempfile::tempdir().unwrap();
        let spill = Spill::create(dir.path(), 8).unwrap();
        let extent = spill.store(b"abcdef", || false).unwrap().unwrap();
        assert_eq!(spill.store(b"xyz", || true).unwrap(), None);
        let beyond = spill.store_now(b"uvw").unwrap();
        spill.take_back(beyond, &mut [0; 3]).unwrap();
        let mut buffer = *b"before";
        spill.take_back(extent, &mut buffer).unwrap();
        assert_eq!(&buffer, b"abcdef");
        assert!(spill.store(b"xyz", || true).unwrap().is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
