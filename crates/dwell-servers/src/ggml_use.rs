//! What the processes of a command have to do with ggml, seen from outside while they run.
//!
//! The recorder makes a ring for each process that computes with ggml as a shared library. This is for the others: a user
//! who gets no accesses is told which of the possible reasons it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dwell_events::server::NOTICE_ENDING;
use dwell_process::{ProcessLine, process_tree};

use crate::ServerPlace;

/// Begin of the names of ggml's own libraries.
const GGML_LIBRARY: &[u8] = b"libggml";
/// A name that every ggml of the last years has in its strings, wherever it was linked to, with or without symbols.
const GGML_MARK: &[u8] = b"ggml_backend_sched_graph_compute_async";
/// Bytes of one file, and of all files together, that are searched for it. Above that (libraries of GPUs) the answer is
/// not worth the time.
const MOST_FILE_BYTES: u64 = 256 << 20;
const MOST_BYTES: u64 = 1 << 30;

/// The reason of a process that has none of the recorder.
const NOT_LOADED: &str = "the recorder was not loaded: the program is setuid, linked statically, or drops LD_PRELOAD";

/// Looks at a process after which its libraries are taken to be loaded: the first ones may come before the loader is done.
const SETTLED_LOOKS: u32 = 5;

/// What was seen of the processes of a command.
#[derive(Default)]
pub(crate) struct GgmlUse {
    /// How often each process was looked at.
    looks: BTreeMap<u32, u32>,
    /// Whether any was seen with its libraries.
    has_looked: bool,
    has_recorder: bool,
    has_library: bool,
    /// Programs and libraries that were mapped.
    files: BTreeSet<PathBuf>,
}

impl GgmlUse {
    /// Looks at the process and all that it started. To be called now and then: what ended cannot be looked at.
    pub(crate) fn look(&mut self, root: u32, place: &ServerPlace) {
        let recorder = place.preload_library.as_ref().map(|library| library.canonicalize().unwrap_or(library.clone()));
        for process in process_tree(root).into_iter().filter(|process| !is_guard(process, place)) {
            let Ok(maps) = fs::read(format!("/proc/{}/maps", process.pid)) else { continue };
            let files: Vec<PathBuf> = mapped_programs(&maps).collect();
            let looks = self.looks.entry(process.pid).or_default();
            *looks += 1;
            let has_recorder = recorder.as_ref().is_some_and(|recorder| files.contains(recorder));
            self.has_looked |= has_recorder || *looks >= SETTLED_LOOKS;
            self.has_recorder |= has_recorder;
            self.has_library |= files.iter().any(|file| is_ggml_library(file));
            self.files.extend(files.into_iter().filter(|file| Some(file) != recorder.as_ref()));
        }
    }

    /// Why nothing was recorded; `None` if a process has made a ring.
    pub(crate) fn untraced_because(&self, place: &ServerPlace) -> Option<String> {
        let Some(ring_dir) = &place.ring_dir else { return Some("the collector tensor_ops was not used".to_owned()) };
        if place.preload_library.is_none() {
            return Some("libdwell_preload.so is neither beside dwell nor in ../lib/dwell".to_owned());
        }
        match endings_in(ring_dir) {
            endings if endings.iter().any(|ending| ending != NOTICE_ENDING) => return None,
            endings if !endings.is_empty() => return Some("the recorder could not make its ring".to_owned()),
            _ => {}
        }
        Some(match self {
            Self { has_looked: false, .. } => "the command ended before dwell could look at its processes".to_owned(),
            Self { has_library: true, has_recorder: true, .. } => "ggml was loaded and computed nothing".to_owned(),
            Self { has_library: true, .. } => NOT_LOADED.to_owned(),
            _ => match self.file_with_ggml() {
                Some(file) => format!(
                    "ggml is linked statically into {:?}; only a ggml that is called through the dynamic linker can be recorded",
                    file.display().to_string()
                ),
                None if !self.has_recorder => NOT_LOADED.to_owned(),
                None => "none of its processes has ggml".to_owned(),
            },
        })
    }

    /// The first program or library, other than ggml's own, that ggml is part of.
    fn file_with_ggml(&self) -> Option<&PathBuf> {
        let mut left = MOST_BYTES;
        self.files.iter().filter(|file| !is_ggml_library(file)).find(|file| {
            let size = fs::metadata(file).map_or(u64::MAX, |metadata| metadata.len());
            if size > MOST_FILE_BYTES.min(left) {
                return false;
            }
            left -= size;
            holds(file, GGML_MARK)
        })
    }
}

/// Whether a process has not become the command yet: until then it is dwell, which has a ggml of its own.
fn is_guard(process: &ProcessLine, place: &ServerPlace) -> bool {
    let guard = place.guard.iter().map(|word| word.to_string_lossy());
    let begin: Vec<&str> = process.command_line.iter().take(guard.len()).map(String::as_str).collect();
    guard.len() > 0 && guard.eq(begin)
}

fn is_ggml_library(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.as_bytes().starts_with(GGML_LIBRARY))
}

/// Endings of the names of rings, of the streams that they were emptied into, and of notices.
fn endings_in(dir: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().extension().unwrap_or_default().to_owned()).collect()
}

/// Files that are mapped to be executed, by the lines of `/proc/<pid>/maps`.
fn mapped_programs(maps: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = maps.split(|&byte| byte == b'\n');
    let executed =
        lines.filter(|line| line.split(|&byte| byte == b' ').nth(1).is_some_and(|mode| mode.contains(&b'x')));
    executed.filter_map(|line| {
        let begin = line.iter().position(|&byte| byte == b'/')?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&line[begin..])))
    })
}

/// Whether a file holds these bytes.
fn holds(file: &Path, wanted: &[u8]) -> bool {
    let Ok(mut file) = File::open(file) else { return false };
    let mut buffer = vec![0; 1 << 20];
    let mut kept = 0;
    while let Ok(read @ 1..) = file.read(&mut buffer[kept..]) {
        let end = kept + read;
        if buffer[..end].windows(wanted.len()).any(|window| window == wanted) {
            return true;
        }
        // The wanted bytes may begin at the end of this part.
        kept = end.min(wanted.len() - 1);
        buffer.copy_within(end - kept..end, 0);
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_are_read_from_maps_with_spaces_in_their_names() {
        let maps = b"5500-5600 r--p 00 fe:00 1   /usr/bin/python3\n5600-5700 r-xp 00 fe:00 1   /usr/bin/python3\n\
            7f00-7f10 r-xp 00 fe:00 2   /opt/my models/libggml-base.so.0\n7f20-7f30 rw-p 00 00:00 0   [heap]\n";
        let found: Vec<PathBuf> = mapped_programs(maps).collect();
        assert_eq!(found, [Path::new("/usr/bin/python3"), Path::new("/opt/my models/libggml-base.so.0")]);
        assert!(!is_ggml_library(&found[0]) && is_ggml_library(&found[1]));
    }

    #[test]
    fn bytes_are_found_across_the_parts_that_a_file_is_read_in() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        let mut bytes = vec![7_u8; (1 << 20) - 5];
        bytes.extend(GGML_MARK);
        fs::write(&file, &bytes).unwrap();
        assert!(holds(&file, GGML_MARK));
        assert!(!holds(&file, b"another mark"));
    }

    #[test]
    fn every_reason_is_told_by_what_was_seen() {
        let dir = tempfile::tempdir().unwrap();
        let static_program = dir.path().join("program");
        fs::write(&static_program, GGML_MARK).unwrap();
        let place = |library: Option<&str>| ServerPlace {
            log_dir: dir.path().to_owned(),
            ring_dir: Some(dir.path().join("rings")),
            preload_library: library.map(PathBuf::from),
            allocation_library: None,
            observer_pid: 1,
            cache_dir: std::path::PathBuf::new(),
            page_sample_interval_ms: 100,
            guard: Vec::new(),
            environment: Vec::new(),
        };
        let because = |seen: &GgmlUse| seen.untraced_because(&place(Some("/lib/recorder.so"))).unwrap();
        assert!(GgmlUse::default().untraced_because(&place(None)).unwrap().contains("libdwell_preload.so"));
        assert!(because(&GgmlUse::default()).contains("ended before"));
        let plain = || GgmlUse {
            looks: BTreeMap::new(),
            has_looked: true,
            has_recorder: true,
            has_library: false,
            files: BTreeSet::from([PathBuf::from("/usr/bin/env")]),
        };
        assert_eq!(because(&plain()), "none of its processes has ggml");
        assert_eq!(because(&GgmlUse { has_library: true, ..plain() }), "ggml was loaded and computed nothing");
        assert!(because(&GgmlUse { has_recorder: false, ..plain() }).contains("drops LD_PRELOAD"));
        // A library that uses ggml's names its functions; with ggml's own library beside it, it is not part of it.
        let user = || GgmlUse { files: BTreeSet::from([static_program.clone()]), ..plain() };
        let dropped = GgmlUse { has_library: true, has_recorder: false, ..user() };
        assert!(because(&dropped).contains("drops LD_PRELOAD"));
        assert!(because(&user()).starts_with("ggml is linked statically into"));
        fs::create_dir_all(dir.path().join("rings/2.unrecorded")).unwrap();
        assert_eq!(because(&plain()), "the recorder could not make its ring");
        fs::create_dir_all(dir.path().join("rings/1.ring")).unwrap();
        assert_eq!(plain().untraced_because(&place(Some("/lib/recorder.so"))), None);
    }
}
