//! What the page is asked to do.

use dwell_events::engine::{EngineKind, Job};
use dwell_events::server::{Api, PageDevice};
use serde_json::{Value, json};

use crate::client::Asked;

/// The job of a request, as `run.html` takes it.
pub(super) fn page_job(
    job: &Job,
    model_url: &str,
    asked: &Asked<'_>,
    max_tokens: u32,
    sample_interval_ms: u64,
) -> Value {
    let options = &job.options;
    let stem = options.model.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut page_job = json!({
        "runtime": job.engine.name(),
        "model": {"name": stem.unwrap_or_default(), "url": model_url},
        "prompt": asked.text,
        "maxTokens": max_tokens,
        "temperature": options.temperature,
        "seed": options.seed,
        "contextLength": options.context_length,
        "threads": options.threads,
        "samplingIntervalMs": sample_interval_ms,
        "ignoreEnd": options.ignore_end,
        "device": device(job).name(),
    });
    if asked.server.api == Api::Chat {
        let message = |turn: &crate::Turn| json!({"role": turn.speaker.role(), "content": turn.text});
        page_job["messages"] = asked.turns.iter().map(message).collect();
    }
    page_job
}

/// WebLLM has no other device; the others compute exactly the same on every machine with WebAssembly.
fn device(job: &Job) -> PageDevice {
    let usual = if job.engine == EngineKind::WebLlm { PageDevice::WebGpu } else { PageDevice::Wasm };
    job.server.device.unwrap_or(usual)
}
