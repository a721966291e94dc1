//! Raw streams: what collectors append to while a run is recorded.

use dwell_store::RawReader;

use crate::scratch;

pub(crate) fn run(bytes: &[u8]) {
    let path = scratch::file("stream.arrows", bytes);
    let Ok(mut reader) = RawReader::open(&path) else { return };
    for batch in reader.by_ref() {
        if batch.is_ok_and(|batch| batch.num_columns() == 0) {
            break;
        }
    }
    assert!(reader.whole_bytes() <= bytes.len() as u64);
}
