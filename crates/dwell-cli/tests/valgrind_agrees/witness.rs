//! Every load and store of the worker, seen by valgrind.
//!
//! The recorder stores to two counters right before and right after each computation, and to a place of its own after each
//! operation; their addresses are in the ring's header, so the accesses in between can be cut out.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use dwell_ring::Consumer;

use crate::bytes::Touched;
use crate::common::text_of;

/// What valgrind saw.
pub struct Seen {
    /// Each computation.
    pub windows: Vec<Window>,
    /// What was touched before each of them, and after the one before it.
    pub before: Vec<Touched>,
    /// What was touched after the last one.
    pub after: Touched,
}

/// What one computation touched.
#[derive(Default)]
pub struct Window {
    /// By each of its operations, and after the last one. With several threads some may still be at an operation that the
    /// leading one has left.
    pub operations: Vec<Touched>,
}

impl Window {
    /// By all of them.
    pub fn touched(&self) -> Touched {
        let mut touched = Touched::default();
        self.operations.iter().for_each(|operation| touched.extend(operation));
        touched
    }
}

/// The folder that has valgrind's tool `accesses`, made from `accesses.c` once, or why there is none.
pub fn tool_folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOLDER.get_or_init(make_tool).as_deref().map_err(Clone::clone)
}

fn make_tool() -> Result<PathBuf, String> {
    let of_valgrind = |asked: &[&str]| {
        let output = Command::new("pkg-config").args(asked).arg("valgrind").output();
        let output = output.ok().filter(|output| output.status.success());
        let output = output.ok_or("valgrind, the libraries of its tools or pkg-config is not installed")?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let [arch, os, platform] =
        [of_valgrind(&["--variable=arch"])?, of_valgrind(&["--variable=os"])?, of_valgrind(&["--variable=platform"])?];
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
    let made = Command::new("cc")
        .args(["-O2", "-Wall", "-fno-stack-protector", "-fno-builtin", "-fno-pie", "-no-pie"])
        .args(["-static", "-nodefaultlibs", "-nostartfiles", "-Wl,-u,_start", "-Wl,--build-id=none"])
        .arg(format!("-Wl,-Ttext-segment={}", of_valgrind(&["--variable=valt_load_address"])?))
        .args([format!("-DVGA_{arch}"), format!("-DVGO_{os}"), format!("-DVGP_{arch}_{os}")])
        .arg("-o")
        .arg(folder.join(format!("accesses-{platform}")))
        .args(of_valgrind(&["--cflags"])?.split_whitespace())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/valgrind_agrees/accesses.c"))
        .args(of_valgrind(&["--libs"])?.split_whitespace())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    link_core_files(&folder, &[of_valgrind(&["--variable=libdir"])? + "/valgrind", "/usr/libexec/valgrind".into()])?;
    Ok(folder)
}

/// valgrind looks for its own files in the folder of its tools.
fn link_core_files(folder: &Path, places: &[String]) -> Result<(), String> {
    let files = |place: &String| fs::read_dir(place).ok().map(|files| files.flatten().collect::<Vec<_>>());
    let core = places.iter().filter_map(files).flatten().filter(|file| {
        let name = file.file_name();
        name == "default.supp" || name.to_string_lossy().starts_with("vgpreload_core")
    });
    let linked = core.map(|file| symlink(file.path(), folder.join(file.file_name())).unwrap()).count();
    if linked == 0 { Err(format!("valgrind's own files are in none of {places:?}")) } else { Ok(()) }
}

/// One access, as `accesses.c` writes it.
struct Access {
    address: u64,
    size_bytes: u64,
    is_store: bool,
}

const RECORD_BYTES: usize = 16;

impl Access {
    fn decode(record: &[u8; RECORD_BYTES]) -> Self {
        let (address, [size_bytes, kind]) = (
            u64::from_le_bytes(record[..8].try_into().unwrap()),
            [8, 12].map(|at| u32::from_le_bytes(record[at..at + 4].try_into().unwrap())),
        );
        assert!((1..=2).contains(&kind), "the tool writes loads and stores");
        Self { address, size_bytes: size_bytes.into(), is_store: kind == 2 }
    }
}

/// Runs a command of dwell whose worker is under valgrind; the run's raw streams are in `raw_dir`.
pub fn run(mut command: Command, tool_folder: &Path, place: &Path, raw_dir: PathBuf) -> Seen {
    let fifo = place.join("accesses");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Threads that wait for each other by looking again and again must take turns.
    let wrapper = format!("valgrind --tool=accesses --fair-sched=yes --output={}", fifo.display());
    command.env("DWELL_WORKER_WRAPPER", wrapper).env("VALGRIND_LIB", tool_folder);
    // Not in a scope: a worker that never starts leaves a reader that waits for ever.
    let reader = std::thread::spawn(move || read_accesses(&fifo, &raw_dir));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    reader.join().unwrap()
}

/// Reads the tool's records and cuts them where the recorder stores its marks.
fn read_accesses(fifo: &Path, raw_dir: &Path) -> Seen {
    let mut pipe = File::open(fifo).unwrap();
    rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20).unwrap();
    let mut cut = Cut::default();
    let mut ring = None;
    let mut buffer = vec![0; 1 << 18];
    let mut filled = 0;
    loop {
        match pipe.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("cannot read what valgrind saw: {error}"),
        }
        // The worker makes its ring long before its first computation.
        ring = ring.or_else(|| ring_in(raw_dir));
        let marks = ring.as_ref().map(Marks::of);
        let (records, rest) = buffer[..filled].as_chunks::<RECORD_BYTES>();
        records.iter().for_each(|record| cut.take(&Access::decode(record), marks));
        let (whole_bytes, rest_bytes) = (records.as_flattened().len(), rest.len());
        buffer.copy_within(whole_bytes..filled, 0);
        filled = rest_bytes;
    }
    assert_eq!(filled, 0, "valgrind ended in the middle of a record");
    without_empty(cut)
}

/// Where the recorder stores its marks.
#[derive(Clone, Copy)]
struct Marks {
    begun: u64,
    ended: u64,
    operation: u64,
}

impl Marks {
    fn of(ring: &Consumer) -> Self {
        let begun = ring.graph_counters_address();
        Self { begun, ended: begun + 8, operation: ring.node_marks_address() }
    }
}

/// Accesses so far, cut at the marks.
#[derive(Default)]
struct Cut {
    windows: Vec<Window>,
    before: Vec<Touched>,
    outside: Touched,
    is_inside: bool,
}

impl Cut {
    fn take(&mut self, access: &Access, marks: Option<Marks>) {
        // Marks are stored one by one. When the ring is made its whole header is, and a reader that lags behind knows the
        // ring by then.
        let is_mark = |place: fn(Marks) -> u64| {
            access.is_store && access.size_bytes == 8 && marks.is_some_and(|marks| place(marks) == access.address)
        };
        if is_mark(|marks| marks.begun) {
            self.before.push(std::mem::take(&mut self.outside));
            self.windows.push(Window { operations: vec![Touched::default()] });
            self.is_inside = true;
        } else if is_mark(|marks| marks.ended) {
            self.is_inside = false;
        } else if self.is_inside && is_mark(|marks| marks.operation) {
            self.windows.last_mut().unwrap().operations.push(Touched::default());
        } else {
            let inside = self.windows.last_mut().filter(|_| self.is_inside);
            let touched = inside.and_then(|window| window.operations.last_mut()).unwrap_or(&mut self.outside);
            touched.add(access.is_store, access.address, access.size_bytes);
        }
    }
}

/// A header that is stored piece by piece looks like a computation that touched nothing.
fn without_empty(cut: Cut) -> Seen {
    let mut seen = Seen { windows: Vec::new(), before: Vec::new(), after: cut.outside };
    let mut pending = Touched::default();
    for (window, before) in cut.windows.into_iter().zip(cut.before) {
        pending.extend(&before);
        if window.operations.iter().any(|operation| !operation.loads.is_empty()) {
            seen.windows.push(window);
            seen.before.push(std::mem::take(&mut pending));
        }
    }
    seen.after.extend(&pending);
    seen
}

fn ring_in(raw_dir: &Path) -> Option<Consumer> {
    let entries = fs::read_dir(raw_dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "ring")).find_map(|path| Consumer::open(&path).ok())
}
