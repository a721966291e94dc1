//! Every load and store of the worker, seen by valgrind.
//!
//! The recorder stores to two counters right before and right after each computation; their addresses are in the ring's
//! header, so the accesses in between can be cut out.

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
    /// What each computation touched.
    pub windows: Vec<Touched>,
    /// What was touched before each of them, and after the one before it.
    pub before: Vec<Touched>,
    /// What was touched after the last one.
    pub after: Touched,
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

/// Reads the tool's records and cuts them at the stores to the two counters.
fn read_accesses(fifo: &Path, raw_dir: &Path) -> Seen {
    let mut pipe = File::open(fifo).unwrap();
    rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20).unwrap();
    let mut cut = Cut::default();
    let mut counters_address = None;
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
        counters_address = counters_address.or_else(|| ring_in(raw_dir).map(|ring| ring.graph_counters_address()));
        let (records, rest) = buffer[..filled].as_chunks::<RECORD_BYTES>();
        records.iter().for_each(|record| cut.take(&Access::decode(record), counters_address));
        let (whole_bytes, rest_bytes) = (records.as_flattened().len(), rest.len());
        buffer.copy_within(whole_bytes..filled, 0);
        filled = rest_bytes;
    }
    assert_eq!(filled, 0, "valgrind ended in the middle of a record");
    without_empty(cut)
}

/// Accesses so far, cut at the counters.
#[derive(Default)]
struct Cut {
    windows: Vec<Touched>,
    before: Vec<Touched>,
    outside: Touched,
    is_inside: bool,
}

impl Cut {
    fn take(&mut self, access: &Access, counters_address: Option<u64>) {
        // The counters are stored to one by one. When the ring is made its whole header is, and a reader that lags behind
        // knows the ring by then.
        let counter = counters_address.filter(|_| access.is_store && access.size_bytes == 8);
        match counter {
            Some(begun) if access.address == begun => {
                self.before.push(std::mem::take(&mut self.outside));
                self.windows.push(Touched::default());
                self.is_inside = true;
            }
            Some(begun) if access.address == begun + 8 => self.is_inside = false,
            _ => {
                let inside = self.windows.last_mut().filter(|_| self.is_inside);
                let touched = inside.unwrap_or(&mut self.outside);
                if access.is_store {
                    touched.stores.insert(access.address, access.size_bytes);
                } else {
                    touched.load(access.address, access.size_bytes);
                }
            }
        }
    }
}

/// A header that is stored piece by piece looks like a computation that touched nothing.
fn without_empty(cut: Cut) -> Seen {
    let mut seen = Seen { windows: Vec::new(), before: Vec::new(), after: cut.outside };
    let mut pending = Touched::default();
    for (window, before) in cut.windows.into_iter().zip(cut.before) {
        pending.extend(&before);
        if !window.loads.is_empty() {
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
