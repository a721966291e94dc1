//! Lines of observations of the kernel, and the report on them.

use dwell_observe::{TokenTime, observation_report, read_lines};

use crate::scratch;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(read) = read_lines(&scratch::file("observe.jsonl", bytes)) else { return };
    let tokens: Vec<TokenTime> =
        (0..40).map(|token| TokenTime { begin_ns: token * 1_000_000, end_ns: (token + 1) * 1_000_000 }).collect();
    let report = observation_report(read.lines, Some(&tokens));
    let _ = format!("{report:?}");
}
