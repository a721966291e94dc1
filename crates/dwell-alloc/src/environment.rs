//! What the environment asks for. It is read once and kept: programs change it, and children may be started without it.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

use dwell_ring::allocations::{ALLOCATION_DIR_VARIABLE, ALLOCATION_RING_BYTES_VARIABLE, DEFAULT_ALLOCATION_RING_BYTES};

/// Longest path of a folder for rings, with the zero at its end; longer ones are as if they were not given.
pub(crate) const MOST_PATH_BYTES: usize = 3800;

struct Folder(UnsafeCell<[u8; MOST_PATH_BYTES]>);
// SAFETY: written once, by the one thread that decides whether to record, before the others are told.
unsafe impl Sync for Folder {}
static FOLDER: Folder = Folder(UnsafeCell::new([0; MOST_PATH_BYTES]));
static RING_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_ALLOCATION_RING_BYTES);

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the program has its environment yet: calls of the loader come earlier.
pub(crate) fn is_there() -> bool {
    // SAFETY: the C library's variable, which the loader sets.
    unsafe { !environ.is_null() }
}

/// Reads what is asked for; false if nothing is to be recorded. To be called by one thread, once.
pub(crate) fn read() -> bool {
    let Some(folder) = variable(ALLOCATION_DIR_VARIABLE).filter(|folder| (1..MOST_PATH_BYTES).contains(&folder.len()))
    else {
        return false;
    };
    // SAFETY: one thread does this, and nobody reads before it is done.
    unsafe { (&mut (*FOLDER.0.get()))[..folder.len()].copy_from_slice(folder) };
    let ring_bytes =
        variable(ALLOCATION_RING_BYTES_VARIABLE).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    RING_BYTES.store(ring_bytes.unwrap_or(DEFAULT_ALLOCATION_RING_BYTES), Ordering::Relaxed);
    true
}

/// The folder for rings.
pub(crate) fn folder() -> &'static [u8] {
    // SAFETY: written before anything is recorded, and never again.
    let folder = unsafe { &*FOLDER.0.get() };
    folder.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Bytes of a ring.
pub(crate) fn ring_bytes() -> usize {
    RING_BYTES.load(Ordering::Relaxed)
}

/// A variable of the environment. The C library's function for that takes no lock either, but may be interposed.
fn variable(name: &str) -> Option<&'static [u8]> {
    let mut index = 0;
    loop {
        // SAFETY: the environment is a list of texts, and null at its end; it is read before the program can change it.
        let entry = unsafe {
            let list = environ;
            if list.is_null() || (*list.add(index)).is_null() {
                return None;
            }
            CStr::from_ptr(*list.add(index)).to_bytes()
        };
        if let Some(value) = entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
            return Some(value);
        }
        index += 1;
    }
}
