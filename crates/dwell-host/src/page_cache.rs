//! Files in the page cache: how much of one is there, and dropping it.

#![allow(unsafe_code, reason = "mincore asks about a mapping, and no crate wraps it for files")]

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a file that are asked about at once, which bounds the answer to 256 KiB.
const WINDOW_BYTES: u64 = 1 << 30;

/// Bytes of a file that are in the page cache, in whole pages, and its size.
///
/// The kernel answers only about files that the caller owns or may write to; of others it says that all is there.
pub fn resident_in_page_cache(path: &Path) -> io::Result<(u64, u64)> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let page_bytes = rustix::param::page_size() as u64;
    let mut pages = 0;
    let mut offset = 0;
    while offset < file_bytes {
        let window_bytes = WINDOW_BYTES.min(file_bytes - offset);
        pages += resident_pages(&file, offset, window_bytes, page_bytes)?;
        offset += window_bytes;
    }
    Ok(((pages * page_bytes).min(file_bytes), file_bytes))
}

fn resident_pages(file: &File, offset: u64, window_bytes: u64, page_bytes: u64) -> io::Result<u64> {
    let length = window_bytes as usize;
    let mut answer = vec![0u8; window_bytes.div_ceil(page_bytes) as usize];
    // SAFETY: a new mapping at an address of the kernel's choice, which nothing reads and which is gone before this
    // returns; mincore writes one byte per page of it, and the answer has as many.
    unsafe {
        let mapping = mmap(std::ptr::null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE, file, offset)?;
        let status = libc::mincore(mapping, length, answer.as_mut_ptr());
        let outcome = if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        munmap(mapping, length)?;
        outcome?;
    }
    Ok(answer.iter().filter(|&&page| page & 1 == 1).count() as u64)
}

/// Asks the kernel to forget what it has of a file. Pages that are mapped or not yet written stay.
pub fn drop_from_page_cache(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_there_after_it_was_read_and_gone_after_it_was_dropped() {
        // Not the usual folder of temporary files, which may be memory itself and then never lets go.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("weights");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![7; 3 * 4096 + 5]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(resident_in_page_cache(&path).unwrap(), (3 * 4096 + 5, 3 * 4096 + 5));
        drop_from_page_cache(&path).unwrap();
        assert_eq!(resident_in_page_cache(&path).unwrap(), (0, 3 * 4096 + 5));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(resident_in_page_cache(&path).unwrap(), (0, 0));
    }
}
