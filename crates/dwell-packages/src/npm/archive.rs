//! The archive of a package: a compressed tar of plain files below one folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, EntryType};

use super::inventory::KeptFile;

/// Files that a package may have.
const MOST_FILES: usize = 20_000;
/// What a package may hold, unpacked.
const MOST_BYTES: u64 = 1 << 30;
/// What the frame of a file may take: its header, long names, padding.
const FRAME_BYTES: u64 = 16 << 10;
/// Longest path of a file.
const LONGEST_PATH_BYTES: usize = 1024;

/// Why an archive is not unpacked.
#[derive(Debug)]
pub(super) enum ArchiveFault {
    /// It is damaged, or holds what it must not.
    Unfit(String),
    /// A file could not be written.
    Write(PathBuf, io::Error),
}

fn unfit(reason: impl Into<String>) -> ArchiveFault {
    ArchiveFault::Unfit(reason.into())
}

/// Writes the files that `keeps` wants below `target`, and says which. Their paths lose the first folder, as with npm.
pub(super) fn unpack(
    archive: impl Read,
    keeps: &dyn Fn(&str) -> bool,
    target: &Path,
) -> Result<Vec<KeptFile>, ArchiveFault> {
    // A small archive of long names would else fill the memory.
    let limit_bytes = MOST_BYTES + MOST_FILES as u64 * FRAME_BYTES;
    let mut archive = Archive::new(GzDecoder::new(archive).take(limit_bytes));
    let damaged = |error: io::Error| unfit(format!("a damaged archive ({error})"));
    let (mut kept, mut files, mut total_bytes) = (Vec::new(), 0, 0_u64);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let Some(path) = file_path(&entry)? else { continue };
        files += 1;
        total_bytes = total_bytes.saturating_add(entry.size());
        if files > MOST_FILES || total_bytes > MOST_BYTES {
            return Err(unfit(format!("more than {MOST_FILES} files or {MOST_BYTES} bytes")));
        }
        if keeps(&path) {
            let to = target.join(&path);
            write(&mut entry, &to)?;
            kept.push(KeptFile::unpacked(target, path).map_err(|error| ArchiveFault::Write(to, error))?);
        }
    }
    Ok(kept)
}

/// The path of a file below the package's folder; none for what is no file and does no harm.
fn file_path(entry: &Entry<'_, impl Read>) -> Result<Option<String>, ArchiveFault> {
    let bytes = entry.path_bytes();
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    match entry.header().entry_type() {
        EntryType::Regular => plain(&bytes).map(Some).ok_or_else(|| unfit(format!("the path {shown:?}"))),
        EntryType::Directory | EntryType::XGlobalHeader => Ok(None),
        _ => Err(unfit(format!("{shown:?}, which is no plain file"))),
    }
}

/// A relative path without `.` and `..`, below the first folder.
fn plain(bytes: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(bytes).ok().filter(|path| path.len() <= LONGEST_PATH_BYTES)?;
    let (_, below) = path.split_once('/')?;
    let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains(['\\', '\0']);
    is_plain.then(|| below.to_owned())
}

fn write(entry: &mut Entry<'_, impl Read>, path: &Path) -> Result<(), ArchiveFault> {
    let failed = |error| ArchiveFault::Write(path.to_owned(), error);
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    // A second file of the same name, or one that is a folder already, is refused.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let (needed_bytes, mut buffer) = (entry.size(), vec![0; 64 << 10]);
    let mut written_bytes = 0;
    loop {
        let length = entry.read(&mut buffer).map_err(|error| unfit(format!("a damaged archive ({error})")))?;
        if length == 0 {
            break;
        }
        io::Write::write_all(&mut file, &buffer[..length]).map_err(failed)?;
        written_bytes += length as u64;
    }
    match written_bytes == needed_bytes {
        true => Ok(()),
        false => Err(unfit(format!("{written_bytes} of {needed_bytes} bytes of {:?}", path.file_name()))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    /// An archive of entries with any name, type and size in their headers.
    fn archive(entries: &[(&[u8], EntryType, u64, &[u8])]) -> Vec<u8> {
        let mut tar = Vec::new();
        for (name, kind, size, content) in entries {
            let mut header = Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_entry_type(*kind);
            header.set_size(*size);
            header.set_mode(0o644);
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.extend_from_slice(header.as_bytes());
            tar.extend_from_slice(content);
            tar.resize(tar.len().next_multiple_of(512), 0);
        }
        tar.resize(tar.len() + 1024, 0);
        compressed(&tar)
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn fault(archive: &[u8]) -> String {
        let target = tempfile::tempdir().unwrap();
        let outcome = unpack(archive, &|_| true, &target.path().join("package"));
        let outside: Vec<_> = fs::read_dir(target.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(outside.iter().all(|name| name == "package"), "{outside:?}");
        match outcome.unwrap_err() {
            ArchiveFault::Unfit(reason) => reason,
            ArchiveFault::Write(path, error) => format!("writing {path:?}: {error}"),
        }
    }

    #[test]
    fn wanted_files_are_written_below_the_target_and_no_others() {
        let plain = EntryType::Regular;
        let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let long = format!("package/dist/{0}/{0}/{0}.js", "x".repeat(120));
        for (name, content) in
            [("package/package.json", "{}"), ("package/dist/a.js", "a"), ("package/b/b", "b"), (&long, "l")]
        {
            let mut header = Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_entry_type(plain);
            tar.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        let target = tempfile::tempdir().unwrap();
        let kept = unpack(&bytes[..], &|path| !path.starts_with("b/"), target.path()).unwrap();
        let kept: Vec<(&str, u64)> = kept.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
        assert_eq!(kept, [("package.json", 2), ("dist/a.js", 1), (&long["package/".len()..], 1)]);
        assert_eq!(fs::read_to_string(target.path().join("dist/a.js")).unwrap(), "a");
        assert!(!target.path().join("b").exists());
    }

    #[test]
    fn nothing_is_written_outside_and_nothing_but_files() {
        let plain = EntryType::Regular;
        for name in ["/etc/x", "package/../../x", "../x", "x", "package/", "package/./x", "package//x", "package/a\\b"]
        {
            let found = fault(&archive(&[(name.as_bytes(), plain, 1, b"x")]));
            assert!(found.contains("the path"), "{name}: {found}");
        }
        assert!(fault(&archive(&[(b"package/\xff", plain, 1, b"x")])).contains("the path"));
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char, EntryType::Block] {
            let found = fault(&archive(&[(b"package/x", kind, 0, b"")]));
            assert!(found.contains("no plain file"), "{kind:?}: {found}");
        }
        let twice = archive(&[(b"package/x", plain, 1, b"x"), (b"package/x", plain, 1, b"y")]);
        assert!(fault(&twice).contains("File exists"), "{}", fault(&twice));
    }

    #[test]
    fn damaged_endless_and_overlong_archives_are_refused() {
        let plain = EntryType::Regular;
        assert!(fault(b"no archive").contains("damaged"));
        let whole = archive(&[(b"package/x", plain, 4096, &[7; 4096])]);
        assert!(fault(&whole[..whole.len() / 2]).contains("damaged"), "{}", fault(&whole[..whole.len() / 2]));
        assert!(fault(&archive(&[(b"package/x", plain, MOST_BYTES + 1, b"x")])).contains("more than"));
        let short = archive(&[(b"package/x", plain, 5000, b"x")]);
        assert!(fault(&short).contains("bytes of"), "{}", fault(&short));
        // A header whose numbers are no numbers.
        let mut header = *Header::new_ustar().as_bytes();
        header[124..136].copy_from_slice(b"not a number");
        assert!(fault(&compressed(&header)).contains("damaged"));
    }
}
