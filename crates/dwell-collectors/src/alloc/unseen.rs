//! Processes whose allocations nobody sees: the recorder is not in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dwell_process::process_tree;

/// How often a tree is looked at for processes that have been started.
const TREE_INTERVAL: Duration = Duration::from_millis(200);
/// Name of the recorder's library, wherever it lies.
const LIBRARY: &[u8] = b"libdwell_alloc.so";
/// Looks after which a process is taken to have its libraries.
const SETTLED_LOOKS: u32 = 2;

/// A program that a process ran, one after the other.
struct Image {
    program: PathBuf,
    looks: u32,
    has_recorder: bool,
}

/// The processes of an engine.
pub(super) struct Processes {
    roots: Vec<u32>,
    /// The programs of each process.
    seen: BTreeMap<u32, Vec<Image>>,
    looked_at: Instant,
}

impl Processes {
    pub(super) fn new() -> Self {
        Self { roots: Vec::new(), seen: BTreeMap::new(), looked_at: Instant::now() }
    }

    /// From now on looks at this process and all that it starts.
    pub(super) fn add_root(&mut self, pid: u32) {
        self.roots.push(pid);
        self.seen.entry(pid).or_default();
    }

    /// Looks at all processes, if it is time.
    pub(super) fn look(&mut self) {
        if self.looked_at.elapsed() < TREE_INTERVAL {
            return;
        }
        self.looked_at = Instant::now();
        let own_program = std::env::current_exe().ok();
        let trees = self.roots.iter().flat_map(|root| process_tree(*root).into_iter().map(|process| process.pid));
        let pids: BTreeSet<u32> = trees.chain(self.roots.iter().copied()).collect();
        for pid in pids {
            let (Ok(maps), Ok(program)) =
                (fs::read(format!("/proc/{pid}/maps")), fs::read_link(format!("/proc/{pid}/exe")))
            else {
                continue;
            };
            // It has not become the engine yet.
            if maps.is_empty() || own_program.as_deref() == Some(&*program) {
                continue;
            }
            let has_recorder = maps.windows(LIBRARY.len()).any(|window| window == LIBRARY);
            note(self.seen.entry(pid).or_default(), program, has_recorder);
        }
    }

    /// Why the allocations of some processes were not seen. A process that was never looked at may have a ring all the same; a ring of
    /// one that was may be of the program that it ran before.
    pub(super) fn unseen(&self, recorded: &BTreeSet<u32>) -> Vec<String> {
        let reasons = |(pid, images): (&u32, &Vec<Image>)| match images.is_empty() {
            true if recorded.contains(pid) => Vec::new(),
            true => vec![format!("process {pid}: it ended before dwell could look at it, and made no ring")],
            false => images.iter().filter_map(|image| why(*pid, image)).collect(),
        };
        self.seen.iter().flat_map(reasons).collect()
    }
}

/// Adds a look at a process to what is known of the program that it runs.
fn note(images: &mut Vec<Image>, program: PathBuf, has_recorder: bool) {
    match images.last_mut().filter(|image| image.program == program) {
        Some(image) => {
            image.looks += 1;
            image.has_recorder |= has_recorder;
        }
        None => images.push(Image { program, looks: 1, has_recorder }),
    }
}

fn why(pid: u32, image: &Image) -> Option<String> {
    let program = &image.program;
    if image.has_recorder {
        return None;
    }
    if is_static(program) {
        return Some(format!("process {pid}, {program:?}: nothing is seen of it, because it has no dynamic C library"));
    }
    (image.looks >= SETTLED_LOOKS).then(|| {
        format!("process {pid}, {program:?}: the recorder was not loaded: the program is setuid, or drops LD_PRELOAD")
    })
}

/// Whether no loader is asked to load the program: it has no segment `PT_INTERP`.
fn is_static(program: &Path) -> bool {
    const PT_INTERP: u32 = 3;
    let Ok(bytes) = read_begin(program) else { return false };
    let number = |at: usize, size: usize| {
        bytes.get(at..at + size).map(|part| part.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    let is_elf64 = bytes.starts_with(b"\x7fELF\x02\x01");
    let headers = || Some((number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize));
    let Some((offset, size, count)) = headers().filter(|_| is_elf64) else { return false };
    (0..count).all(|index| number(offset.saturating_add(index * size), 4) != Some(u64::from(PT_INTERP)))
}

/// The headers of a program lie at its begin.
fn read_begin(program: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    fs::File::open(program)?.take(1 << 14).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a process that was seen to run these programs, each for so many looks.
    fn unseen(programs: &[(&str, u32, bool)], recorded: &[u32]) -> Vec<String> {
        let mut processes = Processes::new();
        processes.add_root(7);
        for &(program, looks, has_recorder) in programs {
            let images = processes.seen.entry(7).or_default();
            (0..looks).for_each(|_| note(images, program.into(), has_recorder));
        }
        processes.unseen(&recorded.iter().copied().collect())
    }

    #[test]
    fn a_ring_of_the_program_before_does_not_hide_that_nothing_is_seen_of_the_next() {
        assert_eq!(unseen(&[("/bin/sh", 3, true)], &[7]).len(), 0);
        let said = unseen(&[("/bin/sh", 3, true), ("/bin/su", 3, false)], &[7]);
        assert!(said.len() == 1 && said[0].contains("\"/bin/su\": the recorder was not loaded"), "{said:?}");
        // It may not have its libraries yet.
        assert_eq!(unseen(&[("/bin/su", 1, false)], &[]).len(), 0);
        assert_eq!((unseen(&[], &[7]).len(), unseen(&[], &[]).len()), (0, 1), "never looked at");
    }
}
