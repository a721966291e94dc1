//! Lines of JSON, as Ollama answers.

use dwell_servers::LineDecoder;

use crate::pieces::{LIMIT_BYTES, check};

pub(crate) fn run(bytes: &[u8]) {
    check(bytes, || LineDecoder::new(LIMIT_BYTES));
}
