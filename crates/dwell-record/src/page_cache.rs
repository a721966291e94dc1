//! How much of a model's file is in memory already when a run begins.

use std::path::Path;

use dwell_events::engine::Job;
use dwell_events::server::StartKind;
use dwell_host::{drop_from_page_cache, resident_in_page_cache};
use dwell_metadata::PageCache;

/// Looks at the model's file; drops it from the page cache first if the run is to start cold.
///
/// None if there is no such file here, or if it cannot be looked at: the run does not depend on it.
pub(crate) fn prepare(job: &Job) -> Option<PageCache> {
    let model: &Path = &job.options.model;
    if model.as_os_str().is_empty() {
        return None;
    }
    let was_dropped = job.server.start == StartKind::Cold && drop_from_page_cache(model).is_ok();
    let (resident_bytes, model_bytes) = resident_in_page_cache(model).ok()?;
    Some(PageCache { model_bytes, resident_bytes, was_dropped })
}
