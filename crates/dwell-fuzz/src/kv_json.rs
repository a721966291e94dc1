//! Batches of KV cache events as lines of JSON.

use dwell_kv_events::{batch_of_line, decode_batch};

pub(crate) fn run(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(batch) = batch_of_line(line) {
            let _ = decode_batch(&batch.payload);
        }
    }
}
