//! Compiles the program, runs it with the recorder, and reads what both say.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dwell_ring::allocations::{
    ALLOCATION_DIR_VARIABLE, ALLOCATION_RING_BYTES_VARIABLE, AllocationCall, AllocationReader, ReadEvent,
    RecordedProcess,
};

/// Call, address and size.
pub type Call = (&'static str, u64, u64);
/// Calls by process and thread.
pub type History = BTreeMap<(u32, u32), Vec<Call>>;

/// Sizes of the allocations between which the program does known things.
const MARKS: [u64; 2] = [424_241, 424_243];

/// A folder with the program and its rings.
pub struct Lab {
    dir: tempfile::TempDir,
}

/// What was recorded of a process.
pub struct Recorded {
    pub process: RecordedProcess,
    pub events: Vec<ReadEvent>,
    /// Without a place, and at a bad time.
    pub lost: (u64, u64),
}

impl Lab {
    pub fn new() -> Self {
        Self::with_program("history.c")
    }

    /// The same with another program.
    pub fn with_program(source: &str) -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(lab.rings()).unwrap();
        lab.compile(source, &lab.program(), &["-pthread"]);
        lab
    }

    fn compile(&self, source: &str, output: &Path, options: &[&str]) {
        let source = format!("{}/tests/history/c/{source}", env!("CARGO_MANIFEST_DIR"));
        let said = Command::new("cc").args(["-O2", "-w"]).args(options).arg("-o").arg(output).arg(source).output();
        let said = said.unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    /// The program with another allocator beside the recorder.
    pub fn run_beside_other_allocator(&self, words: &[&str]) -> (History, Vec<Recorded>) {
        let other = self.dir.path().join("libother.so");
        self.compile("other.c", &other, &["-shared", "-fPIC", "-fno-builtin"]);
        let mut command = self.command(words, 32 << 20);
        command.env("LD_PRELOAD", format!("{}:{}", library().display(), other.display()));
        (history_of(&succeeded(command.output().unwrap())), self.recorded())
    }

    pub fn program(&self) -> PathBuf {
        self.dir.path().join("history")
    }

    pub fn rings(&self) -> PathBuf {
        self.dir.path().join("rings")
    }

    /// The program with the recorder, which makes rings of so many bytes.
    pub fn command(&self, words: &[&str], ring_bytes: usize) -> Command {
        let mut command = Command::new(self.program());
        command.args(words).env("LD_PRELOAD", library()).env(ALLOCATION_DIR_VARIABLE, self.rings());
        command.env(ALLOCATION_RING_BYTES_VARIABLE, ring_bytes.to_string());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, words: &[&str]) -> (History, Vec<Recorded>) {
        let output = self.command(words, 32 << 20).output().unwrap();
        let said = succeeded(output);
        (history_of(&said), self.recorded())
    }

    /// Runs it until it says that it is done, and kills it.
    pub fn run_and_kill(&self, words: &[&str]) -> (History, Vec<Recorded>) {
        let mut child = self.command(words, 32 << 20).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines.take_while(|line| line != "done").collect();
        child.kill().unwrap();
        child.wait().unwrap();
        (history_of(&said.join("\n")), self.recorded())
    }

    /// What is in the rings, in the order in which they were made.
    pub fn recorded(&self) -> Vec<Recorded> {
        let entries = std::fs::read_dir(self.rings()).unwrap().map(|entry| entry.unwrap().path());
        let mut recorded: Vec<Recorded> = entries
            .map(|path| {
                let mut reader = AllocationReader::open(&path).unwrap();
                let mut events = Vec::new();
                reader.read(None, &mut events);
                reader.release();
                let again = events.len();
                reader.read(None, &mut events);
                assert_eq!(events.len(), again, "what was released came again");
                Recorded { process: reader.process().clone(), events, lost: reader.lost() }
            })
            .collect();
        recorded.sort_by_key(|recorded| recorded.process.made_ns);
        recorded
    }
}

/// The library, beside the folder of the test programs. It is no dependency of theirs, so cargo does not build it for them.
pub fn library() -> PathBuf {
    let test_program = std::env::current_exe().unwrap();
    let library = test_program.parent().and_then(Path::parent).unwrap().join("libdwell_alloc.so");
    assert!(library.exists(), "build it first with `cargo build --release -p dwell-alloc`: {library:?}");
    library
}

pub fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the program says that it did.
pub fn history_of(said: &str) -> History {
    let mut history = History::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, thread, call, address, size] = words[..] else { panic!("{line}") };
        let number = |word: &str| word.parse::<u64>().unwrap();
        let call = CALLS.iter().map(|(_, name)| *name).find(|name| *name == call).unwrap_or("madvise");
        let key = (number(pid) as u32, number(thread) as u32);
        history.entry(key).or_default().push((call, number(address), number(size)));
    }
    history
}

/// What was recorded between the marks.
pub fn recorded_history(recorded: &[Recorded]) -> History {
    let mut all: BTreeMap<(u32, u32, u64), Vec<&ReadEvent>> = BTreeMap::new();
    for Recorded { process, events, .. } in recorded {
        for event in events {
            all.entry((process.pid, event.thread, process.made_ns)).or_default().push(event);
        }
    }
    let mut history = History::new();
    for ((pid, thread, _), mut events) in all {
        events.sort_by_key(|event| event.sequence);
        assert!(events.is_sorted_by_key(|event| event.time_ns), "the times of a thread go back");
        let mark = |size: u64| events.iter().position(|event| event.size_bytes == size);
        if let [Some(begin), Some(end)] = MARKS.map(mark) {
            // The mark's own free is behind it.
            let calls = events[begin + 2..end]
                .iter()
                .map(|event| (name_of(event.call), event.address, event.size_bytes))
                .collect();
            history.insert((pid, thread), calls);
        }
    }
    history
}

const CALLS: [(AllocationCall, &str); 19] = [
    (AllocationCall::Malloc, "malloc"),
    (AllocationCall::Calloc, "calloc"),
    (AllocationCall::Realloc, "realloc"),
    (AllocationCall::ReallocArray, "reallocarray"),
    (AllocationCall::PosixMemalign, "posix_memalign"),
    (AllocationCall::AlignedAlloc, "aligned_alloc"),
    (AllocationCall::Memalign, "memalign"),
    (AllocationCall::Valloc, "valloc"),
    (AllocationCall::Pvalloc, "pvalloc"),
    (AllocationCall::MmapAnonymous, "mmap"),
    (AllocationCall::MmapFile, "mmap-file"),
    (AllocationCall::Mremap, "mremap"),
    (AllocationCall::Sbrk, "sbrk"),
    (AllocationCall::Free, "free"),
    (AllocationCall::ReallocFree, "realloc-free"),
    (AllocationCall::Munmap, "munmap"),
    (AllocationCall::MremapFree, "mremap-free"),
    (AllocationCall::SbrkFree, "sbrk-free"),
    (AllocationCall::Undo, "undo"),
];

fn name_of(call: AllocationCall) -> &'static str {
    CALLS.iter().find(|(known, _)| *known == call).map_or("madvise", |(_, name)| name)
}
