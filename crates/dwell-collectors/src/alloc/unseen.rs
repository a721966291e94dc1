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

/// What is known of a process.
#[derive(Default)]
struct Seen {
    program: Option<PathBuf>,
    looks: u32,
    has_recorder: bool,
}

/// The processes of an engine.
pub(super) struct Processes {
    roots: Vec<u32>,
    seen: BTreeMap<u32, Seen>,
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
            let seen = self.seen.entry(pid).or_default();
            seen.looks += 1;
            seen.has_recorder |= maps.windows(LIBRARY.len()).any(|window| window == LIBRARY);
            seen.program = Some(program);
        }
    }

    /// Why the allocations of some processes were not seen, beside those that have a ring.
    pub(super) fn unseen(&self, recorded: &BTreeSet<u32>) -> Vec<String> {
        let is_unseen = |(pid, seen): &(&u32, &Seen)| !recorded.contains(pid) && !seen.has_recorder;
        self.seen.iter().filter(is_unseen).filter_map(|(pid, seen)| why(*pid, seen)).collect()
    }
}

fn why(pid: u32, seen: &Seen) -> Option<String> {
    match &seen.program {
        Some(program) if is_static(program) => {
            Some(format!("process {pid}, {program:?}: nothing is seen of it, because it has no dynamic C library"))
        }
        Some(program) if seen.looks >= SETTLED_LOOKS => Some(format!(
            "process {pid}, {program:?}: the recorder was not loaded: the program is setuid, or drops LD_PRELOAD"
        )),
        Some(_) => None,
        None => Some(format!("process {pid}: it ended before dwell could look at it, and made no ring")),
    }
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
