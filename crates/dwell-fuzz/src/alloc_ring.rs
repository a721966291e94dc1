//! Rings of allocations, as a killed observer or a hostile program leaves them in a run directory.

use dwell_ring::allocations::AllocationReader;

use crate::scratch;

pub(crate) fn run(bytes: &[u8]) {
    let path = scratch::file("process.ring", bytes);
    let Ok(mut reader) = AllocationReader::open(&path) else { return };
    let mut events = Vec::new();
    for _ in 0..2 {
        reader.read(None, &mut events);
        reader.release();
    }
    let _ = (reader.lost(), reader.has_ended());
}
