//! The record of a request, as of the moment when recording begins.

use dwell_events::ClockAnchor;
use dwell_events::host::Baseline;
use dwell_events::server::without_secrets;
use dwell_host::read_host;
use dwell_metadata::{PageCache, RunRecord, RunRequest};

/// What is written before anything starts: the request without secrets, the clocks and the machine.
pub(crate) fn run_record(request: &RunRequest, baseline: Option<Baseline>, page_cache: Option<PageCache>) -> RunRecord {
    let mut request = request.clone();
    request.command_line = without_secrets(&request.command_line);
    request.job.server.arguments = without_secrets(&request.job.server.arguments);
    RunRecord {
        request,
        clock: clock_anchor(),
        host: read_host(),
        baseline,
        page_cache,
        dwell_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn clock_anchor() -> ClockAnchor {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    ClockAnchor { monotonic_ns: dwell_ring::monotonic_ns(), unix_ns: unix.as_nanos() as u64 }
}
