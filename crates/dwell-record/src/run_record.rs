//! The record of a request, as of the moment when recording begins.

use dwell_events::host::Baseline;
use dwell_events::without_secrets;
use dwell_host::{clock_anchor, read_host};
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
