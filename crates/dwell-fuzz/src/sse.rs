//! Server-sent events, as servers answer.

use dwell_servers::SseDecoder;

use crate::pieces::{LIMIT_BYTES, check};

pub(crate) fn run(bytes: &[u8]) {
    check(bytes, || SseDecoder::new(LIMIT_BYTES));
}
