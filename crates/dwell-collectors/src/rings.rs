//! The files of rings in `raw/`.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_events::server::{NOTICE_ENDING, PROGRAM_RINGS_DIR};
use dwell_store::{RunDir, StoreError};

/// Folder, in that of the raw files, of rings of allocations.
const ALLOCATION_RINGS_DIR: &str = "alloc";
const RING: &str = "ring";
/// A ring that could not be read to its end. The file stays, so that the loss is known however often tables are built.
const DAMAGED_RING: &str = "damaged_ring";
/// A ring whose worker was killed while it made it; nothing is in it.
const UNFINISHED_RING: &str = "partial";

/// Where programs into which the recorder was loaded make their rings.
pub fn programs_dir(run: &RunDir) -> PathBuf {
    run.raw().join(PROGRAM_RINGS_DIR)
}

/// Where processes whose allocations are recorded make their rings.
pub fn allocations_dir(run: &RunDir) -> PathBuf {
    run.raw().join(ALLOCATION_RINGS_DIR)
}

/// Makes the folder of programs.
pub fn make_programs_dir(run: &RunDir) -> Result<(), StoreError> {
    let dir = programs_dir(run);
    fs::create_dir(&dir).map_err(|error| StoreError::from_io("making the folder of programs' rings", &dir, error))
}

/// Rings of workers that may hold records.
pub fn waiting(run: &RunDir) -> Vec<PathBuf> {
    in_dir(&run.raw())
}

/// Rings of other programs that may hold records.
pub fn waiting_of_programs(run: &RunDir) -> Vec<PathBuf> {
    in_dir(&programs_dir(run))
}

/// Rings in a folder.
pub fn in_dir(dir: &Path) -> Vec<PathBuf> {
    with_ending(dir, RING)
}

/// Raw streams of other programs.
pub fn program_streams(run: &RunDir) -> Vec<PathBuf> {
    with_ending(&programs_dir(run), "arrows")
}

/// How many rings could not be read to their end.
pub fn damaged_count(run: &RunDir) -> u64 {
    let count = |dir: &Path| with_ending(dir, DAMAGED_RING).len() as u64;
    count(&run.raw()) + count(&programs_dir(run))
}

/// How many processes could not make their ring.
pub fn not_made_count(run: &RunDir) -> u64 {
    notices_in(&programs_dir(run))
}

/// How many processes say in a folder that they could not make their ring.
pub fn notices_in(dir: &Path) -> u64 {
    with_ending(dir, NOTICE_ENDING).len() as u64
}

/// Marks a ring as one that could not be read to its end.
pub fn set_aside(ring: &Path) -> Result<(), StoreError> {
    fs::rename(ring, ring.with_extension(DAMAGED_RING))
        .map_err(|error| StoreError::from_io("setting a damaged ring aside", ring, error))
}

/// Whether a file is a ring, in use or never finished.
pub fn is_ring(path: &Path) -> bool {
    path.extension() == Some(RING.as_ref()) || is_unfinished_ring(path)
}

fn is_unfinished_ring(path: &Path) -> bool {
    let is_of_ring = path.file_stem().is_some_and(|stem| Path::new(stem).extension() == Some(RING.as_ref()));
    is_of_ring && path.extension() == Some(UNFINISHED_RING.as_ref())
}

/// Removes rings that were never finished.
pub fn remove_unfinished(run: &RunDir) {
    [run.raw(), programs_dir(run), allocations_dir(run)].iter().for_each(|dir| remove_unfinished_in(dir));
}

/// Removes those of one folder.
pub fn remove_unfinished_in(dir: &Path) {
    for path in with_ending(dir, UNFINISHED_RING).into_iter().filter(|path| is_unfinished_ring(path)) {
        // It takes space and does no other harm.
        let _ = fs::remove_file(path);
    }
}

/// Removes a folder without rings. A damaged ring or a notice stays in it, and so does it then. Says whether it is gone.
pub fn remove_folder(dir: &Path) -> bool {
    remove_unfinished_in(dir);
    fs::remove_dir(dir).is_ok() || !dir.exists()
}

/// The process that made a ring.
pub fn producer_pid(ring: &Path) -> Option<u32> {
    ring.file_stem()?.to_str()?.parse().ok()
}

/// Files with an ending in a folder, in the order of their names; none if the folder is not there.
fn with_ending(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some(ending.as_ref())).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_leave_notices_by_the_name_that_is_looked_for() {
        assert_eq!(dwell_ring::NOTICE_ENDING, NOTICE_ENDING);
    }

    #[test]
    fn rings_that_were_never_finished_are_removed_wherever_processes_make_them() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let run = RunDir::create(dir.path(), "m", "r").expect("a run can be made");
        for folder in [run.raw(), programs_dir(&run), allocations_dir(&run)] {
            fs::create_dir_all(&folder).expect("a folder can be made");
            let [unfinished, ring] = ["7-9.ring.partial", "7-9.ring"].map(|name| folder.join(name));
            for path in [&unfinished, &ring] {
                fs::write(path, "").expect("a file can be written");
            }
            remove_unfinished(&run);
            assert!(!unfinished.exists() && ring.exists(), "{folder:?}");
        }
    }
}
