//! Batches of KV cache events, as vLLM and SGLang publish them.

use dwell_kv_events::decode_batch;

pub(crate) fn run(bytes: &[u8]) {
    let _ = decode_batch(bytes);
}
